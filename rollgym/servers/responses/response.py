"""A read-only view of a Responses object, and the chat-style transcript of its output.

*The view* is for verifiers and agents. It wraps the decoded dict and computes each property when it
is read. Objects come from many servers and from stored rows, so a field that is missing or of
another type reads as absent, never as an error. The strict reading happens where a completion
enters (`from_chat.py`).

*The transcript* is the `output` of a rollout's row, for people and for tools that read chat. Each
text is one entry, the calls of one turn are together in the next entry, and the outputs of the
tools follow. Reasoning is a field of the entry that follows it. An item of an unknown kind is kept
whole under `item`, so that nothing here can fail a rollout that is finished.
"""

from collections.abc import Iterable
from typing import Annotated, Any, Self

import msgspec

from rollgym.records import NO_USAGE, Usage
from rollgym.records.decoding import DEEPEST_ARGUMENTS, JsonDecoder, is_deeper_than
from rollgym.records.version import TurnVersion, body_version
from rollgym.servers.responses.messages import assistant_content, chat_content, reasoning_text
from rollgym.servers.responses.shape import JsonObject, ShapeError, as_object

_ARGUMENTS = JsonDecoder(dict[str, msgspec.Raw])
_OBJECT = JsonDecoder(dict[str, Any])


class FunctionCall(msgspec.Struct, frozen=True):
    """A call the model asked for; `arguments` is the text it wrote, which need not be JSON."""

    call_id: str
    name: str
    arguments: str

    @property
    def parsed_arguments(self) -> JsonObject | None:
        """The arguments as an object, {} where there are none; None for any other text."""
        text = self.arguments or "{}"
        if is_deeper_than(DEEPEST_ARGUMENTS, text):
            return None
        try:
            return _OBJECT.decode(text)
        except (msgspec.DecodeError, UnicodeEncodeError):
            return None


def arguments_problem(arguments: str) -> str | None:
    """What the arguments of a call are instead of a JSON object that can be sent on."""
    if is_deeper_than(DEEPEST_ARGUMENTS, arguments):
        return f"nested more than {DEEPEST_ARGUMENTS} levels deep"
    try:
        _ARGUMENTS.decode(arguments)
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        return f"not a JSON object: {error}"
    return None


_Count = Annotated[int, msgspec.Meta(ge=0)]


class _InputDetails(msgspec.Struct):
    cached_tokens: _Count = 0


class _OutputDetails(msgspec.Struct):
    reasoning_tokens: _Count = 0


class _Counts(msgspec.Struct):
    """The token counts of a response, as the API writes them."""

    input_tokens: _Count = 0
    output_tokens: _Count = 0
    input_tokens_details: _InputDetails | None = None
    output_tokens_details: _OutputDetails | None = None


def _readable_counts(usage: JsonObject) -> Usage:
    """The counts that are numbers, of a server that writes others as well."""
    of_input, of_output = usage.get("input_tokens_details"), usage.get("output_tokens_details")
    counts = (
        usage.get("input_tokens"),
        usage.get("output_tokens"),
        of_input.get("cached_tokens") if isinstance(of_input, dict) else 0,
        of_output.get("reasoning_tokens") if isinstance(of_output, dict) else 0,
    )
    # A bool does not count.
    return Usage(*[each if type(each) is int and each > 0 else 0 for each in counts])


class Response:
    """The response of a model or an agent. `raw` is the Responses object; do not change it."""

    __slots__ = ("output", "raw")

    output: list[JsonObject]
    """The output items in order."""

    def __init__(self, raw: JsonObject) -> None:
        self.raw = raw
        output = raw.get("output")
        items: list[Any] = list(output) if isinstance(output, list) else []
        for item in items:
            if not isinstance(item, dict):
                items = [each for each in items if isinstance(each, dict)]
                break
        self.output = items

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
    def version(self) -> TurnVersion:
        """The policy version that sampled it, as far as the object says it."""
        return body_version(self.raw)

    @property
    def status(self) -> str:
        """`completed`, `incomplete`, …; "" where the object has none."""
        return _text(self.raw, "status")

    @property
    def incomplete_reason(self) -> str | None:
        """Why it is incomplete: `max_output_tokens`, `content_filter`; None if it is complete."""
        details = self.raw.get("incomplete_details")
        return (_text(details, "reason") or None) if isinstance(details, dict) else None

    @property
    def text(self) -> str:
        """Text of the last assistant message; "" if there is none."""
        return _message_text(self._last_assistant_message)

    @property
    def texts(self) -> list[str]:
        """Text of every assistant message, in order."""
        return [_message_text(item) for item in self.output if _is_said(item)]

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
        usage = self.raw.get("usage")
        if not usage or not isinstance(usage, dict):
            return NO_USAGE
        try:
            counts = msgspec.convert(usage, _Counts)
        except msgspec.ValidationError:
            return _readable_counts(usage)
        of_input, of_output = counts.input_tokens_details, counts.output_tokens_details
        return Usage(
            counts.input_tokens,
            counts.output_tokens,
            of_input.cached_tokens if of_input else 0,
            of_output.reasoning_tokens if of_output else 0,
        )

    @property
    def _last_assistant_message(self) -> JsonObject:
        for item in reversed(self.output):
            if _is_said(item):
                return item
        return {}

    def __repr__(self) -> str:
        return f"Response(id={self.id!r}, status={self.status!r}, {len(self.output)} output items)"


def _text(source: JsonObject, name: str) -> str:
    value = source.get(name)
    return value if isinstance(value, str) else ""


def _is_said(item: JsonObject) -> bool:
    return item.get("role") == "assistant" and item.get("type", "message") == "message"


def _message_text(message: JsonObject) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    texts: list[str] = []
    for part in content:
        if isinstance(part, dict) and part.get("type") == "output_text":
            text = part.get("text")
            if isinstance(text, str):
                texts.append(text)
    return "".join(texts)


def _objects(source: JsonObject, name: str) -> list[JsonObject]:
    value = source.get(name)
    if not isinstance(value, list):
        return []
    return [member for member in value if isinstance(member, dict)]


def _parts(message: JsonObject, kind: str) -> list[JsonObject]:
    return [part for part in _objects(message, "content") if part.get("type") == kind]


def chat_transcript(output_items: Iterable[object]) -> list[JsonObject]:
    """Entries with `role` and `content`, `tool_calls`, or `tool_call_id`; in order."""
    transcript = _Transcript()
    for item in output_items:
        try:
            transcript.add(as_object(item))
        except ShapeError:
            transcript.keep_whole(item)
    return transcript.finish()


class _Transcript:
    def __init__(self) -> None:
        self._entries: list[JsonObject] = []
        self._reasoning: list[str] = []
        self._calls: list[JsonObject] | None = None

    def add(self, item: JsonObject) -> None:
        kind = item.get("type") or "message"
        if kind == "function_call":
            self._add_call(item)
            return
        self._calls = None
        if kind == "reasoning":
            self._reasoning.append(reasoning_text(item))
        elif kind == "function_call_output":
            content = _plain(chat_content(item, "output"))
            entry = {"role": "tool", "tool_call_id": item.get("call_id"), "content": content}
            self._entries.append(entry)
        elif kind == "message" and item.get("role") == "assistant":
            self._add_text(item)
        elif kind == "message":
            content = _plain(chat_content(item, "content"))
            self._entries.append({"role": item.get("role"), "content": content})
        else:
            raise ShapeError("type", f"{kind!r} is unknown")

    def keep_whole(self, item: object) -> None:
        self._calls = None
        self._entries.append(self._assistant({"item": item}))

    def finish(self) -> list[JsonObject]:
        if any(self._reasoning):
            self._entries.append(self._assistant({"content": ""}))
        return self._entries

    def _add_text(self, item: JsonObject) -> None:
        texts, refusals = assistant_content(item)
        entry = self._assistant({"content": "".join(texts)})
        if refusals:
            entry["refusal"] = "".join(refusals)
        self._entries.append(entry)

    def _add_call(self, item: JsonObject) -> None:
        function = {"name": item.get("name"), "arguments": item.get("arguments")}
        call = {"id": item.get("call_id"), "type": "function", "function": function}
        if self._calls is None:
            self._calls = []
            self._entries.append(self._assistant({"tool_calls": self._calls}))
        self._calls.append(call)

    def _assistant(self, fields: JsonObject) -> JsonObject:
        entry: JsonObject = {"role": "assistant", **fields}
        if any(self._reasoning):
            entry["reasoning"] = "\n".join(filter(None, self._reasoning))
        self._reasoning = []
        return entry


def _plain(content: str | list[Any]) -> str | list[Any]:
    """Join texts to one text; content with images stays a list of parts."""
    if isinstance(content, str) or any(part["type"] != "text" for part in content):
        return content
    return "\n".join(part["text"] for part in content)
