"""The Responses API: a view of its objects, and the conversion from and to other APIs.

`chat_request` converts a Responses request to chat completions, and `response_from_chat` converts
the completion back. For a chat client of a Responses model, `responses_request` and
`chat_completion` do the opposite, and for a client of Anthropic's Messages, `anthropic_request` and
`anthropic_message`. All functions work on decoded JSON and do nothing else.
"""

from rollgym.servers.responses.anthropic_dialect import (
    anthropic_message,
    anthropic_request,
    unsent_parameters,
)
from rollgym.servers.responses.chat_dialect import chat_completion, responses_request
from rollgym.servers.responses.events import (
    anthropic_events,
    completion_chunks,
    response_events,
    sse,
)
from rollgym.servers.responses.from_chat import asks_for_logprobs, response_from_chat
from rollgym.servers.responses.metadata import metadata_parameters, without_stream
from rollgym.servers.responses.response import (
    FunctionCall,
    Response,
    arguments_problem,
    chat_transcript,
)
from rollgym.servers.responses.shape import JsonObject
from rollgym.servers.responses.to_chat import ChatForm, chat_request

__all__ = [
    "ChatForm",
    "FunctionCall",
    "JsonObject",
    "Response",
    "anthropic_events",
    "anthropic_message",
    "anthropic_request",
    "arguments_problem",
    "asks_for_logprobs",
    "chat_completion",
    "chat_request",
    "chat_transcript",
    "completion_chunks",
    "metadata_parameters",
    "response_events",
    "response_from_chat",
    "responses_request",
    "sse",
    "unsent_parameters",
    "without_stream",
]
