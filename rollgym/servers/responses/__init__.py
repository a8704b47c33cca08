"""The Responses API: a view of its answers, and its conversion to and from chat completions.

`chat_request` and `response_from_chat` are for an upstream that speaks chat completions,
`responses_request_from_chat` and `chat_from_response` for one that speaks Responses. All work on
decoded JSON and touch nothing else.
"""

from rollgym.servers.responses.from_chat import response_from_chat
from rollgym.servers.responses.from_responses import chat_from_response
from rollgym.servers.responses.response import FunctionCall, Response
from rollgym.servers.responses.shape import JsonObject
from rollgym.servers.responses.to_chat import chat_request
from rollgym.servers.responses.to_responses import responses_request_from_chat
from rollgym.servers.responses.transcript import chat_transcript

__all__ = [
    "FunctionCall",
    "JsonObject",
    "Response",
    "chat_from_response",
    "chat_request",
    "chat_transcript",
    "response_from_chat",
    "responses_request_from_chat",
]
