"""The Responses API: a view of its objects, and the conversion for chat completions endpoints.

`chat_request` converts a Responses request to chat completions, and `response_from_chat` converts
the completion back. All functions work on decoded JSON and do nothing else.
"""

from rollgym.servers.responses.from_chat import response_from_chat
from rollgym.servers.responses.response import FunctionCall, Response, chat_transcript
from rollgym.servers.responses.shape import JsonObject
from rollgym.servers.responses.to_chat import chat_request

__all__ = [
    "FunctionCall",
    "JsonObject",
    "Response",
    "chat_request",
    "chat_transcript",
    "response_from_chat",
]
