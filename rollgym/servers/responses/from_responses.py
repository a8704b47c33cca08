"""Answers of an upstream that speaks Responses, as chat completions.

All items of the answer go into the message of one choice. Items of tools that the upstream ran
itself have no place in chat and are passed over; the model's own words about them are not.
"""

from rollgym.records import ModelMalformedError
from rollgym.servers.responses.calls import chat_tool_call
from rollgym.servers.responses.parts import assistant_content, reasoning_text
from rollgym.servers.responses.shape import (
    JsonObject,
    ShapeError,
    as_object,
    convert_each,
    get_array,
    get_optional_array,
    get_optional_object,
    get_optional_text,
    get_seconds,
    shape_errors_as,
)
from rollgym.servers.responses.tokens import token_fields
from rollgym.servers.responses.usage import chat_usage

_FINISH = {"max_output_tokens": "length", "content_filter": "content_filter"}


def chat_from_response(response: object) -> JsonObject:
    """The chat completion that says what `response` says.

    Raises ModelMalformedError where the response cannot be read, or is none: failed or unfinished.
    """
    with shape_errors_as(ModelMalformedError, "the response cannot be read"):
        answer = as_object(response)
        status = get_optional_text(answer, "status") or "completed"
        if status not in {"completed", "incomplete"}:
            raise ShapeError("status", f"{status}; error: {answer.get('error')}")
        message = _Message()
        convert_each("output", get_array(answer, "output"), message.add)
        choice: JsonObject = {
            "index": 0,
            "message": message.chat(),
            "finish_reason": _finish_reason(answer, message),
            "logprobs": {"content": message.logprobs} if message.logprobs else None,
        }
        return {
            "id": get_optional_text(answer, "id") or "",
            "object": "chat.completion",
            "created": get_seconds(answer, "created_at"),
            "model": get_optional_text(answer, "model") or "",
            "choices": [choice],
            "usage": chat_usage(answer),
        }


class _Message:
    """What the items of one answer amount to."""

    def __init__(self) -> None:
        self.logprobs: list[object] = []
        self.calls: list[JsonObject] = []
        self._reasoning: list[str] = []
        self._texts: list[str] = []
        self._refusals: list[str] = []
        self._tokens: JsonObject = {}

    def add(self, item: JsonObject) -> None:
        kind = item.get("type")
        if kind == "message":
            texts, refusals = assistant_content(item)
            self._texts += texts
            self._refusals += refusals
            self._add_logprobs(item)
        elif kind == "function_call":
            self.calls.append(chat_tool_call(item))
        elif kind == "reasoning":
            self._reasoning.append(reasoning_text(item))
        self._tokens = token_fields(item) or self._tokens

    def chat(self) -> JsonObject:
        message: JsonObject = {
            "role": "assistant",
            "content": "".join(self._texts) if self._texts else None,
            "refusal": "".join(self._refusals) if self._refusals else None,
        }
        if any(self._reasoning):
            message["reasoning_content"] = "\n".join(filter(None, self._reasoning))
        if self.calls:
            message["tool_calls"] = self.calls
        return message | self._tokens

    def _add_logprobs(self, item: JsonObject) -> None:
        if isinstance(item.get("content"), list):
            for part in item["content"]:
                self.logprobs += get_optional_array(part, "logprobs")


def _finish_reason(answer: JsonObject, message: _Message) -> str:
    reason = get_optional_text(get_optional_object(answer, "incomplete_details"), "reason")
    if reason is not None:
        return _FINISH.get(reason, reason)
    return "tool_calls" if message.calls else "stop"
