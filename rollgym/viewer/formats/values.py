"""Values of somebody's JSON, taken for what they should be or not at all.

Rows come from our own collections and from other people's files. A value of a type that cannot be
used is as if it were not there, and never a reason to pass over the row.
"""

from collections.abc import Mapping
from typing import Any, TypeAlias, TypeVar

import msgspec

from rollgym.monitor import printable_line
from rollgym.viewer.summary import FIELD_LIMIT, Scalar

Fields: TypeAlias = Mapping[str, msgspec.Raw]

_T = TypeVar("_T")
_LARGEST = (1 << 63) - 1
_ESCAPED = 6
"""Bytes that one character may take in JSON."""
_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ANY = msgspec.json.Decoder()
_FLOAT = msgspec.json.Decoder(float)
_INTEGER = msgspec.json.Decoder(int)
_TEXT = msgspec.json.Decoder(str)
_FLAG = msgspec.json.Decoder(bool)


def fields_of(record: bytes) -> Fields:
    """The fields of a record, undecoded. Raises ValueError for what is no JSON object."""
    return _OBJECT.decode(record)


def decoded(decoder: msgspec.json.Decoder[_T], raw: msgspec.Raw | None) -> _T | None:
    """The value, or None where it is of another type or not there."""
    if raw is None:
        return None
    try:
        return decoder.decode(raw)
    except (ValueError, RecursionError):
        return None


# These are asked dozens of times of each record, most often for what is not there.


def number(raw: msgspec.Raw | None) -> float | None:
    return None if raw is None else decoded(_FLOAT, raw)


def natural(raw: msgspec.Raw | None) -> int | None:
    """A count or an index, of at most 63 bits."""
    value = None if raw is None else decoded(_INTEGER, raw)
    return value if value is not None and 0 <= value <= _LARGEST else None


def text(raw: msgspec.Raw | None) -> str:
    return "" if raw is None else decoded(_TEXT, raw) or ""


def flag(raw: msgspec.Raw | None) -> bool | None:
    return None if raw is None else decoded(_FLAG, raw)


def fields_in(raw: msgspec.Raw | None) -> Fields:
    """The fields of an object; none where it is something else."""
    found = None if raw is None else decoded(_OBJECT, raw)
    return {} if found is None else found


def one_line(text: str, limit: int) -> str:
    """What `printable_line` makes of a text. Most texts are printable, and that is told at once."""
    words = " ".join(text[: 4 * limit].split())[: limit + 1]
    if not words.isprintable():
        return printable_line(words, limit)
    return words if len(words) <= limit else f"{words[: limit - 1]}…"


def begins(raw: msgspec.Raw | None, *openings: bytes) -> bool:
    """Whether a value is of a type, told by its first byte: `[`, `{` or a quote."""
    return raw is not None and any(memoryview(raw)[:1] == opening for opening in openings)


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
    value: Any = decoded(_ANY, raw)
    match value:
        case str():
            line = one_line(value, FIELD_LIMIT + 1)
            return line if len(line) <= FIELD_LIMIT else None
        case bool() | float():
            return value
        case int() if -_LARGEST <= value <= _LARGEST:
            return value
    return None


def either(one: _T | None, other: _T | None) -> _T | None:
    """The first of two values that is there."""
    return other if one is None else one
