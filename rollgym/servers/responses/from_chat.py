"""Answers of an upstream that speaks chat completions, as Responses objects.

The one choice of a completion becomes up to three kinds of item, in this order: what the model
reasoned, what it said, what it called. A stop for length or by a filter makes the response
`incomplete`; an answer the server itself broke off is not an answer and raises.

Where the server gives them, the exact tokens go onto the turn's last item (`tokens`).
"""

from time import time
from typing import Any
from uuid import uuid4

from rollgym.records import ModelMalformedError
from rollgym.records.failure import shorten
from rollgym.servers.responses.calls import function_call_item
from rollgym.servers.responses.parameters import LOGPROBS
from rollgym.servers.responses.parts import chat_reasoning
from rollgym.servers.responses.shape import (
    JsonObject,
    ShapeError,
    as_object,
    at,
    convert_each,
    get_array,
    get_object,
    get_optional_array,
    get_optional_object,
    get_optional_text,
    get_seconds,
    shape_errors_as,
)
from rollgym.servers.responses.thinking import split_thinking
from rollgym.servers.responses.tokens import chat_token_fields
from rollgym.servers.responses.usage import responses_usage

_INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}
_BROKEN_OFF = frozenset({"abort", "error"})
_ECHOED = (
    "instructions",
    "max_output_tokens",
    "metadata",
    "reasoning",
    "temperature",
    "text",
    "top_logprobs",
    "top_p",
    "user",
)


def response_from_chat(
    completion: object, params: JsonObject, *, think_tags: bool = False
) -> JsonObject:
    """The Responses object for `completion`, which answered `params`.

    With `think_tags`, reasoning is also looked for at the start of the text. Raises
    ModelMalformedError where the completion cannot be read, saying what is wrong with it.
    """
    with shape_errors_as(ModelMalformedError, "the chat completion cannot be read"):
        answer = as_object(completion)
        choice = _first_choice(answer)
        suffix = _suffix(answer)
        with at("choices[0]"):
            reason = _incomplete_reason(choice)
            status = "incomplete" if reason else "completed"
            output = _output(choice, params, suffix, think_tags)
            output[-1]["status"] = status
            output[-1].update(chat_token_fields(answer, choice))
        return {
            "id": f"resp_{suffix}",
            "object": "response",
            "created_at": get_seconds(answer, "created") or int(time()),
            "status": status,
            "error": None,
            "incomplete_details": {"reason": reason} if reason else None,
            "model": get_optional_text(answer, "model") or params.get("model") or "",
            "output": output,
            "usage": responses_usage(answer),
            **_echo(params),
        }


def _first_choice(answer: JsonObject) -> JsonObject:
    if not answer.get("choices"):
        raise ShapeError("choices", f"there are none in {shorten(str(answer), 300)}")
    return as_object(get_array(answer, "choices")[0], "choices[0]")


def _incomplete_reason(choice: JsonObject) -> str | None:
    finish = get_optional_text(choice, "finish_reason")
    if finish in _BROKEN_OFF:
        raise ShapeError("finish_reason", f"the server broke the answer off ({finish})")
    return _INCOMPLETE.get(finish or "")


def _suffix(answer: JsonObject) -> str:
    """What the ids of the response and its items have in common."""
    identity = get_optional_text(answer, "id")
    return identity.removeprefix("chatcmpl-") if identity else uuid4().hex


def _output(
    choice: JsonObject, params: JsonObject, suffix: str, think_tags: bool
) -> list[JsonObject]:
    message = get_object(choice, "message")
    with at("message"):
        reasoning = chat_reasoning(message)
        text = get_optional_text(message, "content") or ""
        refusal = get_optional_text(message, "refusal")
        calls = _function_calls(message, suffix)
    if think_tags and not reasoning:
        reasoning, text = split_thinking(text)
    output: list[JsonObject] = []
    if reasoning:
        output.append(_reasoning_item(reasoning, suffix))
    if text or refusal or not (reasoning or calls):
        output.append(_message_item(text, refusal, _asked_logprobs(choice, params), suffix))
    output += calls
    return output


def _reasoning_item(reasoning: str, suffix: str) -> JsonObject:
    return {
        "type": "reasoning",
        "id": f"rs_{suffix}",
        "summary": [{"type": "summary_text", "text": reasoning}],
        "status": "completed",
    }


def _message_item(
    text: str, refusal: str | None, logprobs: list[Any] | None, suffix: str
) -> JsonObject:
    content: list[JsonObject] = []
    if text or not refusal:
        part: JsonObject = {"type": "output_text", "text": text, "annotations": []}
        if logprobs is not None:
            part["logprobs"] = logprobs
        content.append(part)
    if refusal:
        content.append({"type": "refusal", "refusal": refusal})
    return {
        "type": "message",
        "id": f"msg_{suffix}",
        "role": "assistant",
        "content": content,
        "status": "completed",
    }


def _function_calls(message: JsonObject, suffix: str) -> list[JsonObject]:
    entries = get_optional_array(message, "tool_calls")
    calls = convert_each("tool_calls", entries, function_call_item)
    for index, call in enumerate(calls):
        call["id"] = f"fc_{suffix}_{index}"
        call["status"] = "completed"
    return calls


def _asked_logprobs(choice: JsonObject, params: JsonObject) -> list[Any] | None:
    """Log probabilities with their tokens' texts, which are large, where the request asks."""
    include = get_optional_array(params, "include")
    if not (params.get("logprobs") or params.get("top_logprobs") or LOGPROBS in include):
        return None
    return get_optional_array(get_optional_object(choice, "logprobs"), "content")


def _echo(params: JsonObject) -> JsonObject:
    """A Responses object repeats what it was asked with."""
    parallel = params.get("parallel_tool_calls")
    return {
        "parallel_tool_calls": True if parallel is None else parallel,
        "tool_choice": params.get("tool_choice") or "auto",
        "tools": params.get("tools") or [],
        **{name: params[name] for name in _ECHOED if params.get(name) is not None},
    }
