"""How long a conversation was, which tools were called, and what was said last.

It reads the entries of a transcript (roles, contents, tool calls) and the items of a response
(messages, function calls) alike. Contents are passed over, but for the last one.
"""

from collections import Counter
from typing import Any, TypeAlias

import msgspec

from rollgym.viewer.summary import MOST_TOOLS
from rollgym.viewer.values import ABSENT, begins, items_of, read, text_of

_UNNAMED = "(no name)"
_NAME_LIMIT = 120


class _Link(msgspec.Struct):
    url: Any = None


class _Part(msgspec.Struct):
    text: str | None = None
    image_url: _Link | str | None = None
    refusal: str | None = None


Content: TypeAlias = str | list[_Part | str] | None


class _Function(msgspec.Struct):
    name: str | None = None


class _Call(msgspec.Struct):
    name: str | None = None
    function: _Function | None = None


class Item(msgspec.Struct):
    """An entry of a transcript or an item of a response."""

    role: str | None = None
    type: str | None = None
    name: str | None = None
    content: msgspec.Raw = ABSENT
    tool_calls: list[_Call] | None = None


_ITEM = msgspec.json.Decoder(Item)
_ITEMS = msgspec.json.Decoder(list[Item])
_CONTENT = msgspec.json.Decoder(Content)
_NO_ITEM = Item()


class Conversation(msgspec.Struct, frozen=True):
    """`turns` are the model's: a text, or the calls that it made at once."""

    turns: int
    calls: int
    tools: dict[str, int]
    last_words: str


def conversation_in(raw: msgspec.Raw | None) -> Conversation | None:
    """The conversation of a list of entries or of a single text; None where there is none."""
    if begins(raw, b'"'):
        said = text_of(raw)
        return None if said is None else Conversation(1, 0, {}, said)
    if not begins(raw, b"["):
        return None
    items = read(raw, _ITEMS)
    if items is None:  # one of them is odd: the others are not
        raws = items_of(raw)
        if raws is None:
            return None
        items = [read(each, _ITEM) or _NO_ITEM for each in raws]
    return conversation_of(items)


def conversation_of(items: list[Item]) -> Conversation:
    """What the items of a conversation amount to."""
    called: list[str] = []
    turns, calling = 0, False
    for item in items:
        if item.role == "assistant":
            turns, calling = turns + 1, False
            if item.tool_calls:
                called += map(_tool, item.tool_calls)
        elif item.type == "function_call":
            turns, calling = turns + (not calling), True
            called.append(_named(item.name))
        else:
            calling = False
    tools = dict(Counter(called).most_common(MOST_TOOLS))
    return Conversation(turns, len(called), tools, _last_words(items))


def content_text(content: Content) -> str:
    """The texts of a content, and where its pictures are."""
    if content is None or isinstance(content, str):
        return content or ""
    return "\n".join(filter(None, map(_part_text, content)))


def _part_text(part: _Part | str) -> str:
    if isinstance(part, str):
        return part
    link = part.image_url.url if isinstance(part.image_url, _Link) else part.image_url
    return part.text or part.refusal or (link if isinstance(link, str) else "")


def _tool(call: _Call) -> str:
    return _named(call.function.name if call.function else call.name)


def _named(name: str | None) -> str:
    return name[:_NAME_LIMIT] if name else _UNNAMED


def _last_words(items: list[Item]) -> str:
    for item in reversed(items):
        if item.role == "assistant" and item.content:
            said = content_text(read(item.content, _CONTENT))
            if said and not said.isspace():
                return said
    return ""
