"""Model, agent and resources servers: contracts, base classes and transports."""

from rollgym.servers.agent import AgentConfig, AgentServer
from rollgym.servers.client import Http, NoAnswerError, ServerClient, connect, http_session
from rollgym.servers.episode import Episode
from rollgym.servers.exchange import Answer, CookieJar, RefusedRequestError, Request
from rollgym.servers.http_server import listening
from rollgym.servers.model import EndpointModelConfig, EndpointModelServer, ModelServer
from rollgym.servers.resources import ResourcesConfig, ResourcesServer, TaskRow
from rollgym.servers.responses import FunctionCall, Response
from rollgym.servers.scoring import Verdict
from rollgym.servers.server import (
    NoEffect,
    Server,
    ServerConfig,
    ServerDirectory,
    ServerKind,
    ServerRef,
)
from rollgym.servers.tool_results import ToolImage
from rollgym.servers.tools import ToolDefinitionError, ToolRejection, tool, tool_schemas

__all__ = [
    "AgentConfig",
    "AgentServer",
    "Answer",
    "CookieJar",
    "EndpointModelConfig",
    "EndpointModelServer",
    "Episode",
    "FunctionCall",
    "Http",
    "ModelServer",
    "NoAnswerError",
    "NoEffect",
    "RefusedRequestError",
    "Request",
    "ResourcesConfig",
    "ResourcesServer",
    "Response",
    "Server",
    "ServerClient",
    "ServerConfig",
    "ServerDirectory",
    "ServerKind",
    "ServerRef",
    "TaskRow",
    "ToolDefinitionError",
    "ToolImage",
    "ToolRejection",
    "Verdict",
    "connect",
    "http_session",
    "listening",
    "tool",
    "tool_schemas",
]
