"""The call in a reply: one `<tool_call>` block that ends it, or an object that is plainly a call.

The content of a block is read as a value, not searched for its end, so a text that the model types
may contain any tag. Two different blocks, a block that cannot be read, and two untagged objects
that could both be the call are rejected, because the meaning would be a guess.
"""

import re
from collections.abc import Mapping

import msgspec

from webgym.context.parsers.loose_json import ReplyError, Tolerances, UnreadableError, read_value

OPENING, CLOSING = "<tool_call>", "</tool_call>"
CANDIDATES = 16
"""The most objects that are tried if a reply has no tags."""

_FENCE = re.compile(r"\s*+```(?:json)?")
_START_OF_OBJECT = re.compile(r"\{(?=\s*+[\"'])")
_BRACES = re.compile(r"[\s}]*+")


class FoundCall(msgspec.Struct, frozen=True):
    """The content of the block, and the text before it."""

    call: object
    head: str


class _Object(msgspec.Struct, frozen=True):
    value: object
    start: int
    end: int
    tolerated: tuple[str, ...]


def find_call(text: str, tolerances: Tolerances) -> FoundCall:
    """The one call of a reply without its thinking. Raises ReplyError."""
    start = text.find(OPENING)
    if start < 0:
        return _untagged_call(text, tolerances)
    head, calls, at = text[:start], list[object](), start
    while at >= 0:
        call, end = _read_block(text, at + len(OPENING), tolerances)
        calls.append(call)
        at = text.find(OPENING, end)
        after = text[end : at if at >= 0 else len(text)].strip()
        if after:
            tolerances.note("code_fence" if after == "```" else "trailing_text")
    return FoundCall(_only(calls, tolerances), _without_fence(head))


def _read_block(text: str, at: int, tolerances: Tolerances) -> tuple[object, int]:
    at = _skip_fence(text, at, tolerances)
    try:
        read = read_value(text, at, tolerances, CLOSING)
    except UnreadableError as error:
        if error.cut_off and text.find(CLOSING, at) < 0:
            raise ReplyError(
                "the reply breaks off inside <tool_call>: write less before it, and a shorter call"
            ) from None
        raise ReplyError(f"the JSON in <tool_call> cannot be read: {error}") from None
    return read.value, _end_of_block(text, read.end, tolerances)


def _end_of_block(text: str, at: int, tolerances: Tolerances) -> int:
    fence = _FENCE.match(text, at)
    at = fence.end() if fence else at
    braces = _BRACES.match(text, at)
    after = braces.end() if braces else at
    if text.startswith(CLOSING, after):
        if text[at:after].strip():
            tolerances.note("extra_brace")
        return after + len(CLOSING)
    if not text[at:after].strip() and (after == len(text) or text.startswith(OPENING, after)):
        tolerances.note("no_closing_tag")
        return after
    raise ReplyError("<tool_call> must hold one JSON object and nothing else")


def _untagged_call(text: str, tolerances: Tolerances) -> FoundCall:
    """An object in the last line that is plainly a call, although its tags are missing."""
    likely = [each for each in _objects(text) if _resembles_call(each.value)]
    if not likely:
        raise ReplyError(f"there is no call: end the reply with one {OPENING} block")
    found, after = _last(text, likely, tolerances)
    rest = after.strip()
    if "\n" in after.rstrip() and rest != CLOSING:
        raise ReplyError(f"the call must stand in one {OPENING} block that ends the reply")
    tolerances.note("no_opening_tag" if rest == CLOSING else "no_tags")
    if rest not in {"", CLOSING}:
        tolerances.note("trailing_text")
    return found


def find_object(text: str, key: str, tolerances: Tolerances) -> FoundCall:
    """The one JSON object with this key, which ends the reply. Raises ReplyError."""
    likely = [each for each in _objects(text) if isinstance(each.value, dict) and key in each.value]
    if not likely:
        raise ReplyError(f'there is no JSON object with "{key}": reply with one')
    found, rest = _last(text, likely, tolerances)
    if rest.strip():
        tolerances.note("trailing_text")
    return found


def _last(text: str, likely: list[_Object], tolerances: Tolerances) -> tuple[FoundCall, str]:
    """The one value of these objects with the text before them, and the text after them."""
    call = _only([each.value for each in likely], tolerances)
    tolerances.note(*likely[-1].tolerated)
    end = _skip_fence(text, likely[-1].end, tolerances)
    return FoundCall(call, _without_fence(text[: likely[0].start])), text[end:]


def _objects(text: str) -> list[_Object]:
    """The readable objects, wherever they start; none if there are too many beginnings of one."""
    found: list[_Object] = []
    after = tried = 0
    for start in _START_OF_OBJECT.finditer(text):
        if start.start() < after:
            continue
        tried += 1
        if tried > CANDIDATES:
            return []
        tolerated = Tolerances()
        try:
            read = read_value(text, start.start(), tolerated)
        except UnreadableError:
            continue
        after = read.end
        found.append(_Object(read.value, start.start(), read.end, tolerated.names))
    return found


def _resembles_call(value: object) -> bool:
    return isinstance(value, Mapping) and (
        "arguments" in value or "action" in value or {"name", "parameters"} <= set(value)
    )


def _only(calls: list[object], tolerances: Tolerances) -> object:
    first, *others = calls
    # Compared as text, because 1 and True are equal in Python.
    if any(repr(other) != repr(first) for other in others):
        raise ReplyError(f"there are {len(calls)} different calls: write exactly one")
    if others:
        tolerances.note("repeated_call")
    return first


def _skip_fence(text: str, at: int, tolerances: Tolerances) -> int:
    fence = _FENCE.match(text, at)
    if fence is None:
        return at
    tolerances.note("code_fence")
    return fence.end()


def _without_fence(head: str) -> str:
    return head.rstrip().removesuffix("```json").removesuffix("```")
