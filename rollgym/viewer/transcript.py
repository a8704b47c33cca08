"""The turns of a conversation, read from whatever a row holds.

Rows come from our own collections and from other people's files, so nothing is taken for granted:
what is not a text, a picture or a call that we know is shown as its JSON.
"""

from collections.abc import Iterator
from typing import Any, TypeAlias

import msgspec

from rollgym.servers.responses import JsonObject, chat_transcript
from rollgym.viewer.json_text import json_text
from rollgym.viewer.markup import PICTURES


class Picture(msgspec.Struct, frozen=True):
    """A picture that is in the row itself."""

    url: str


class ToolCall(msgspec.Struct, frozen=True):
    """A call with its arguments: decoded, or the text that could not be."""

    name: str
    arguments: Any


Part: TypeAlias = str | Picture


class Turn(msgspec.Struct, frozen=True):
    """What one side said or did. `tool` names the tool that a result is of, where it is known."""

    role: str
    parts: tuple[Part, ...] = ()
    reasoning: str = ""
    calls: tuple[ToolCall, ...] = ()
    tool: str = ""

    @property
    def text(self) -> str:
        return " ".join(part for part in self.parts if isinstance(part, str))


def prompt_turns(params: object) -> list[Turn]:
    """What the model was asked, from `responses_create_params`."""
    if not isinstance(params, dict):
        return []
    asked, entries = params.get("input"), []
    if params.get("instructions"):
        entries.append({"role": "system", "content": params["instructions"]})
    if isinstance(asked, list):
        entries += chat_transcript(asked)
    elif asked is not None:
        entries.append({"role": "user", "content": asked})
    return read_turns(entries)


def output_turns(output: object, response: object) -> list[Turn]:
    """What came of it: a row's `output`, or the items of its `response` where it has none."""
    if isinstance(output, list):
        return read_turns(output)
    items = response.get("output") if isinstance(response, dict) else None
    return read_turns(chat_transcript(items)) if isinstance(items, list) else []


def read_turns(entries: list[Any]) -> list[Turn]:
    """The turns of chat-style entries."""
    names: dict[str, str] = {}
    return [_turn(entry, names) for entry in entries]


def _turn(entry: object, names: dict[str, str]) -> Turn:
    if isinstance(entry, dict) and isinstance(whole := entry.get("item"), dict):
        # What the transcript did not understand is an entry of its own where it has a role.
        entry = whole if "role" in whole else {"role": entry.get("role"), "content": [whole]}
    if not isinstance(entry, dict):
        return Turn("unknown", (json_text(entry),))
    calls = []
    for call in _objects(entry.get("tool_calls")):
        function = call.get("function")
        named = function if isinstance(function, dict) else call
        name = _text(named.get("name")) or "(no name)"
        names[_text(call.get("id"))] = name
        calls.append(ToolCall(name, _arguments(named.get("arguments"))))
    return Turn(
        role=_text(entry.get("role")) or "unknown",
        parts=tuple(_parts(entry)),
        reasoning=_text(entry.get("reasoning") or entry.get("reasoning_content")),
        calls=tuple(calls),
        tool=names.get(_text(entry.get("tool_call_id")), ""),
    )


def _parts(entry: JsonObject) -> Iterator[Part]:
    content = entry.get("content")
    for part in content if isinstance(content, list) else [content]:
        if part is not None and part != "":
            yield _part(part)
    if entry.get("refusal"):
        yield f"(refused) {_text(entry['refusal'])}"


def _part(part: object) -> Part:
    if not isinstance(part, dict):
        return _text(part)
    if isinstance(part.get("text"), str):
        return str(part["text"])
    image = part.get("image_url")
    url = image.get("url") if isinstance(image, dict) else image
    if isinstance(url, str):
        return Picture(url) if url.startswith(PICTURES) else f"(a picture elsewhere) {url}"
    return json_text(part)


def _arguments(arguments: object) -> object:
    if not isinstance(arguments, str):
        return arguments
    try:
        return msgspec.json.decode(arguments)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return arguments


def _objects(value: object) -> list[JsonObject]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _text(value: object) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json_text(value)
