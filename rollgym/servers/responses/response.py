"""A read-only view of a Responses object, for verifiers and agents.

The view wraps the decoded dict and computes each property when it is read. Objects come from many
servers and from stored rows, so a field that is missing or of another type reads as absent, never
as an error. The strict reading happens where a completion enters (`from_chat.py`).
"""

from collections.abc import Iterator
from typing import Self

import msgspec

from rollgym.records import NO_USAGE, Usage
from rollgym.servers.responses.shape import JsonObject


class FunctionCall(msgspec.Struct, frozen=True):
    """A call the model asked for; `arguments` is the text it wrote, which need not be JSON."""

    call_id: str
    name: str
    arguments: str


class Response:
    """The response of a model or an agent. `raw` is the Responses object; do not change it."""

    __slots__ = ("output", "raw")

    output: list[JsonObject]
    """The output items in order."""

    def __init__(self, raw: JsonObject) -> None:
        self.raw = raw
        self.output = _objects(raw, "output")

    @classmethod
    def of(cls, raw: JsonObject) -> Self:
        """View a decoded Responses object."""
        return cls(raw)

    @property
    def id(self) -> str:
        return _text(self.raw, "id")

    @property
    def model(self) -> str:
        """Name of the model; "" where the object has none."""
        return _text(self.raw, "model")

    @property
    def status(self) -> str:
        """`completed`, `incomplete`, …; "" where the object has none."""
        return _text(self.raw, "status")

    @property
    def incomplete_reason(self) -> str | None:
        """Why it is incomplete: `max_output_tokens`, `content_filter`; None if it is complete."""
        return _text(_object(self.raw, "incomplete_details"), "reason") or None

    @property
    def text(self) -> str:
        """Text of the last assistant message; "" if there is none."""
        message = self._last_assistant_message
        content = message.get("content")
        if isinstance(content, str):
            return content
        return "".join(_text(part, "text") for part in _parts(message, "output_text"))

    @property
    def refusal(self) -> str | None:
        """The text of the refusal in the model's last message; None without one."""
        refusals = [
            _text(part, "refusal") for part in _parts(self._last_assistant_message, "refusal")
        ]
        return "".join(refusals) if refusals else None

    @property
    def function_calls(self) -> list[FunctionCall]:
        """Every call in the output, in order."""
        return [
            FunctionCall(_text(item, "call_id"), _text(item, "name"), _text(item, "arguments"))
            for item in self.output
            if item.get("type") == "function_call"
        ]

    @property
    def usage(self) -> Usage:
        """Token counts; zeros where the object has none."""
        usage = _object(self.raw, "usage")
        if not usage:
            return NO_USAGE
        return Usage(
            _count(usage, "input_tokens"),
            _count(usage, "output_tokens"),
            _count(_object(usage, "input_tokens_details"), "cached_tokens"),
            _count(_object(usage, "output_tokens_details"), "reasoning_tokens"),
        )

    @property
    def _last_assistant_message(self) -> JsonObject:
        for item in reversed(self.output):
            if item.get("type", "message") == "message" and item.get("role") == "assistant":
                return item
        return {}

    def __repr__(self) -> str:
        return f"Response(id={self.id!r}, status={self.status!r}, {len(self.output)} output items)"


def _text(source: JsonObject, name: str) -> str:
    value = source.get(name)
    return value if isinstance(value, str) else ""


def _count(source: JsonObject, name: str) -> int:
    value = source.get(name)
    return value if type(value) is int and value > 0 else 0  # a bool does not count


def _object(source: JsonObject, name: str) -> JsonObject:
    value = source.get(name)
    return value if isinstance(value, dict) else {}


def _objects(source: JsonObject, name: str) -> list[JsonObject]:
    value = source.get(name)
    if not isinstance(value, list):
        return []
    return [member for member in value if isinstance(member, dict)]


def _parts(message: JsonObject, kind: str) -> Iterator[JsonObject]:
    return (part for part in _objects(message, "content") if part.get("type") == kind)
