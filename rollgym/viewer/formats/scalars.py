"""What of a row is short enough for a list: lines of text, and single values."""

from typing import Any, TypeVar

import msgspec

from rollgym.monitor import printable_line
from rollgym.viewer.summary import FIELD_LIMIT, Scalar
from rollgym.viewer.values import LARGEST, Fields, read

_T = TypeVar("_T")
_ESCAPED = 6
"""Bytes that one character may take in JSON."""
_ANY = msgspec.json.Decoder()


def either(one: _T | None, other: _T | None) -> _T | None:
    """The first of two values that is there."""
    return other if one is None else one


def one_line(text: str, limit: int) -> str:
    """What `printable_line` makes of a text. Most texts are printable, and that is told at once."""
    words = " ".join(text[: 4 * limit].split())[: limit + 1]
    if not words.isprintable():
        return printable_line(words, limit)
    return words if len(words) <= limit else f"{words[: limit - 1]}…"


def short_scalars(fields: Fields, known: frozenset[str]) -> dict[str, Scalar]:
    """The short texts, numbers and truth values among the fields, but for those known otherwise."""
    found: dict[str, Scalar] = {}
    for name, raw in fields.items():
        if name not in known and len(raw) <= _ESCAPED * FIELD_LIMIT and len(name) <= FIELD_LIMIT:
            value = _scalar(raw)
            if value is not None and value != "":
                found[name] = value
    return found


def _scalar(raw: msgspec.Raw) -> Scalar | None:
    value: Any = read(raw, _ANY)
    match value:
        case str():
            line = one_line(value, FIELD_LIMIT + 1)
            return line if len(line) <= FIELD_LIMIT else None
        case bool() | float():
            return value
        case int() if -LARGEST <= value <= LARGEST:
            return value
    return None
