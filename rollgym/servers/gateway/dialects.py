"""The APIs that agents speak, each with its conversion to the Responses API and back.

An error has the form of its API and the status of the model endpoint's answer, so that the packages
of OpenAI and Anthropic raise what they would raise there. It has no more than the message and the
names of the endpoint for it: not the causes and tracebacks that a failure between servers has.

*Parameters.* What the rollout sets replaces what the agent asked for. Only parameters of sampling
are replaced. What a request is about, such as its input and its tools, is the agent's own. In the
metadata, the parameters for the model server are replaced by theirs
(`rollgym.servers.responses.metadata`), and the rest stays.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from rollgym.records import RolloutError, UpstreamAnswer
from rollgym.servers.exchange import Answer, failure_answer
from rollgym.servers.responses import (
    JsonObject,
    anthropic_events,
    anthropic_message,
    anthropic_request,
    chat_completion,
    completion_chunks,
    response_events,
    responses_request,
    sse,
    unsent_parameters,
    without_stream,
)
from rollgym.servers.responses.metadata import EXTRA_BODY, TEMPLATE_KWARGS

MESSAGES_PATH = "/v1/messages"
_ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    405: "invalid_request_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_OF_THE_AGENT = frozenset(
    (
        *("input", "instructions", "tools", "tool_choice", "parallel_tool_calls", "text", "prompt"),
        *("stream", "stream_options", "previous_response_id", "conversation", "store", "include"),
        *("background", "truncation", "max_tool_calls", "model", "metadata"),
    )
)


class Dialect(NamedTuple):
    """An API: how its requests become Responses parameters, and a response becomes its answer.

    `request` also gets the arguments of earlier calls. `events` are those of a finished answer;
    they also get the body of the request. `unsent` names the parameters that are left out.
    """

    name: str
    request: Callable[[JsonObject, Mapping[str, str]], JsonObject]
    answer: Callable[[JsonObject], JsonObject]
    events: Callable[[JsonObject, JsonObject], Iterator[bytes]]
    unsent: Callable[[JsonObject], list[str]]
    keep_alive: bytes

    @property
    def is_anthropic(self) -> bool:
        return self is ANTHROPIC


def _chunks(completion: JsonObject, body: JsonObject) -> Iterator[bytes]:
    options = body.get("stream_options")
    wants_usage = isinstance(options, dict) and bool(options.get("include_usage"))
    return completion_chunks(completion, with_usage=wants_usage)


def _unsent_in_chat(body: JsonObject) -> list[str]:
    """A name of a speaker has no place in Responses."""
    messages = body.get("messages")
    for message in messages if isinstance(messages, list) else ():
        if isinstance(message, dict) and message.get("name") and message.get("role") != "tool":
            return ["messages.name"]
    return []


RESPONSES = Dialect(
    "responses",
    lambda body, _: without_stream(body),
    lambda response: response,
    lambda response, _: response_events(response),
    lambda _: [],
    b": waiting for the model\n\n",
)
CHAT = Dialect(
    "chat",
    lambda body, _: responses_request(body),
    chat_completion,
    _chunks,
    _unsent_in_chat,
    b": waiting for the model\n\n",
)
ANTHROPIC = Dialect(
    "messages",
    anthropic_request,
    anthropic_message,
    lambda message, _: anthropic_events(message),
    unsent_parameters,
    sse({"type": "ping"}, "ping"),
)
DIALECTS = {
    "/v1/responses": RESPONSES,
    "/v1/chat/completions": CHAT,
    MESSAGES_PATH: ANTHROPIC,
}


def refusal(dialect: Dialect, status: int, message: str) -> Answer:
    """An error answer of the gateway itself."""
    kind = _ERROR_TYPES.get(status, "api_error")
    return _error(dialect, status, message, UpstreamAnswer(status, type=kind), {})


def failed(dialect: Dialect, error: RolloutError) -> Answer:
    """The answer for a call that failed."""
    whole = failure_answer(error)
    names = error.upstream or UpstreamAnswer(0)
    status = names.status if names.status >= 400 else whole.status
    headers = {name: whole.headers[name] for name in ("retry-after",) if name in whole.headers}
    return _error(dialect, status, str(error), names, headers)


def error_event(dialect: Dialect, answer: Answer) -> bytes:
    """An error answer as the last event of a stream that has begun."""
    body = msgspec.json.decode(answer.body)
    if dialect is RESPONSES:
        return sse({"type": "error", **body["error"], "error": body["error"]}, "error")
    return sse(body, "error" if dialect.is_anthropic else "")


def _error(
    dialect: Dialect,
    status: int,
    message: str,
    names: UpstreamAnswer,
    headers: Mapping[str, str],
) -> Answer:
    readable = message.encode("utf-8", "replace").decode()
    kind = _ERROR_TYPES.get(status, "api_error")
    body: dict[str, Any]
    if dialect.is_anthropic:
        body = {"type": "error", "error": {"type": kind, "message": readable}}
    else:
        named = {"type": names.type or kind, "param": names.param, "code": names.code}
        body = {"error": {"message": readable, **named}}
    return Answer(status, msgspec.json.encode(body), headers=headers)


class ForcedParameters:
    """The parameters of a rollout. `replaced` has the first values of an agent that they replaced.

    `given` are all parameters of the rollout's row; those of its request are left out.
    """

    def __init__(self, given: JsonObject) -> None:
        self.replaced: dict[str, Any] = {}
        self._forced = {name: each for name, each in given.items() if name not in _OF_THE_AGENT}
        metadata = given.get("metadata")
        kept = metadata if isinstance(metadata, dict) else {}
        carried = (EXTRA_BODY, TEMPLATE_KWARGS)
        self._carried = {name: kept[name] for name in carried if name in kept}

    def applied(self, params: JsonObject) -> JsonObject:
        """The parameters of a request as they are sent."""
        for name, value in self._forced.items():
            if name in params and params[name] != value:
                self.replaced.setdefault(name, params[name])
        sent = {**params, **self._forced}
        if self._carried:
            own = params.get("metadata")
            sent["metadata"] = {**(own if isinstance(own, dict) else {}), **self._carried}
        return sent
