"""The call in a reply: one `<tool_call>` block that ends it, or what is as good as one.

What is inside a block is read as a value, not searched for its end, so a text that the model types
may hold any tag. Two blocks that differ, a block that cannot be read, or two objects without tags
that could both be the call are refused: nobody knows which was meant.
"""

import re
from collections.abc import Iterator, Mapping

import msgspec

from webgym.context.parsers.errors import ReplyError, Tolerances
from webgym.context.parsers.loose_json import UnreadableError, read_value

OPENING, CLOSING = "<tool_call>", "</tool_call>"
CANDIDATES = 16
"""How many lines that start with a brace are tried where a reply has no tags."""

_FENCE = re.compile(r"\s*+```(?:json)?")
_LINE_WITH_OBJECT = re.compile(r"^[ \t]*+(?=\{)", re.MULTILINE)
_BRACES = re.compile(r"[\s}]*+")


class Found(msgspec.Struct, frozen=True):
    """What stands in the block, and the text before it."""

    call: object
    head: str


class _Object(msgspec.Struct, frozen=True):
    value: object
    start: int
    end: int
    forgiven: tuple[str, ...]


def find_call(text: str, tolerances: Tolerances) -> Found:
    """The one call of a reply, whose thinking is gone. Raises ReplyError."""
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
    return Found(_only(calls, tolerances), _without_fence(head))


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


def _untagged_call(text: str, tolerances: Tolerances) -> Found:
    """An object that ends the reply and is plainly a call, though tags are missing."""
    likely = [each for each in _objects(text) if _resembles_call(each.value)]
    if not likely:
        raise ReplyError(f"there is no call: end the reply with one {OPENING} block")
    call = _only([each.value for each in likely], tolerances)
    tolerances.note(*likely[-1].forgiven)
    end = _skip_fence(text, likely[-1].end, tolerances)
    rest = text[end:].strip()
    if rest not in {"", CLOSING}:
        raise ReplyError(f"the call must stand in one {OPENING} block that ends the reply")
    tolerances.note("no_opening_tag" if rest else "no_tags")
    return Found(call, _without_fence(text[: likely[0].start]))


def _objects(text: str) -> Iterator[_Object]:
    """Those at the start of a line that can be read; none where too many lines start like one."""
    starts = [found.end() for found in _LINE_WITH_OBJECT.finditer(text)]
    after = 0
    for start in starts if len(starts) <= CANDIDATES else ():
        forgiven = Tolerances()
        if start < after:
            continue
        try:
            read = read_value(text, start, forgiven)
        except UnreadableError:
            continue
        after = read.end
        yield _Object(read.value, start, read.end, forgiven.names)


def _resembles_call(value: object) -> bool:
    return isinstance(value, Mapping) and ("arguments" in value or "action" in value)


def _only(calls: list[object], tolerances: Tolerances) -> object:
    first, *others = calls
    # As text: to Python 1 and True are equal.
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
