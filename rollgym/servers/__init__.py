"""Model, agent and resources servers: contracts, base classes and transports.

A name is imported when it is first used: a command that runs its servers in one process does not
import an HTTP library, and one that needs only a module of this package imports only that.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rollgym.servers.agent import AgentConfig, AgentServer
    from rollgym.servers.client import ServerClient, connect
    from rollgym.servers.episode import Episode
    from rollgym.servers.exchange import Answer, CookieJar, RefusedRequestError, Request
    from rollgym.servers.http_client import Http, http_session
    from rollgym.servers.http_server import listening
    from rollgym.servers.model import EndpointModelConfig, EndpointModelServer, ModelServer
    from rollgym.servers.replicas import NoAnswerError
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

_MODULES = (
    *("exchange", "replicas", "client", "responses", "scoring", "server", "tool_results", "tools"),
    *("episode", "resources", "agent", "model", "http_client", "http_server"),
)
"""The modules that define these names; each comes after those that it imports."""

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


def __getattr__(name: str) -> Any:
    if name in __all__:
        for module in (import_module(f"{__name__}.{each}") for each in _MODULES):
            if hasattr(module, name):
                value = globals()[name] = getattr(module, name)
                return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
