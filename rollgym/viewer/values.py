"""Readers of untrusted JSON, one level at a time.

Rows come from rollgym's own collections and from other programs. A record may have fifty megabytes,
of which little is needed at once. A value stays bytes (`msgspec.Raw`, a window on the record's
bytes) until it is needed, and then only its first level is decoded. A value of an unexpected type,
one that is nested too deeply, and one that cannot be decoded all read as None, as if the value were
missing; they are never a reason to skip the row.
"""

from collections.abc import Mapping
from typing import Any, TypeAlias, TypeVar

import msgspec

from rollgym.monitor import printable_line
from rollgym.records.failure import cut_text
from rollgym.viewer.summary import FIELD_LIMIT, Scalar

T = TypeVar("T")
Fields: TypeAlias = Mapping[str, msgspec.Raw]

ABSENT = msgspec.Raw(b"")
LARGEST_INTEGER = (1 << 63) - 1
"""The largest integer that the index can hold."""
UNREADABLE = (ValueError, RecursionError)
"""What a decoder raises for invalid JSON or UTF-8, another type, or too deep nesting."""

_SHORT = 1 << 10
_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ITEMS = msgspec.json.Decoder(list[msgspec.Raw])
_TEXT = msgspec.json.Decoder(str)
_NUMBER = msgspec.json.Decoder(float)
_COUNT = msgspec.json.Decoder(int)
_FLAG = msgspec.json.Decoder(bool)


def fields_of_record(record: bytes) -> dict[str, msgspec.Raw]:
    """The fields of a record. Raises ValueError if it is not a JSON object, RecursionError."""
    return _FIELDS.decode(record)


def read(raw: msgspec.Raw | None, decoder: msgspec.json.Decoder[T]) -> T | None:
    """The value; None where the decoder cannot read it."""
    if raw is None:
        return None
    try:
        return decoder.decode(raw)
    except UNREADABLE:
        return None


# The index calls these dozens of times for each record, mostly for missing values.


def fields_of(raw: msgspec.Raw | None) -> dict[str, msgspec.Raw] | None:
    return None if raw is None or _is_long_string(raw) else read(raw, _FIELDS)


def items_of(raw: msgspec.Raw | None) -> list[msgspec.Raw] | None:
    return None if raw is None or _is_long_string(raw) else read(raw, _ITEMS)


def text_of(raw: msgspec.Raw | None) -> str | None:
    return None if raw is None else read(raw, _TEXT)


def number_of(raw: msgspec.Raw | None) -> float | None:
    return None if raw is None else read(raw, _NUMBER)


def count_of(raw: msgspec.Raw | None) -> int | None:
    """An integer from 0 to 2**63 - 1."""
    count = None if raw is None else read(raw, _COUNT)
    return count if count is not None and 0 <= count <= LARGEST_INTEGER else None


def flag_of(raw: msgspec.Raw | None) -> bool | None:
    return None if raw is None else read(raw, _FLAG)


def begins(raw: msgspec.Raw | None, mark: bytes) -> bool:
    """Whether a value starts with this byte (`[`, `{` or a quote), which tells its type."""
    return raw is not None and len(raw) > 0 and memoryview(raw)[0] == mark[0]


def _is_long_string(raw: msgspec.Raw) -> bool:
    """A decoder of another type would decode the whole string before it rejects it."""
    return len(raw) > _SHORT and begins(raw, b'"')


def is_present(raw: msgspec.Raw | None) -> bool:
    """Whether the value exists and is not null."""
    return raw is not None and start_of(raw, 5) not in (b"", b"null")


def start_of(raw: msgspec.Raw, length: int) -> bytes:
    """The first bytes of a value."""
    return bytes(memoryview(raw)[:length])


def raw_of(value: Any) -> msgspec.Raw:
    """A Python value as JSON bytes, like the fields of a row."""
    return msgspec.Raw(msgspec.json.encode(value))


_T = TypeVar("_T")
_ESCAPED = 6
"""Bytes that one character may have in JSON."""
_ANY = msgspec.json.Decoder()


def either(one: _T | None, other: _T | None) -> _T | None:
    """The first value, or the other one where it is None."""
    return other if one is None else one


def one_line(text: str, limit: int) -> str:
    """The same as `printable_line`, with a fast path for printable texts, which most are."""
    words = " ".join(text[: 4 * limit].split())[: limit + 1]
    if not words.isprintable():
        return printable_line(words, limit)
    return cut_text(words, limit)


def short_scalars(fields: Fields, known: frozenset[str]) -> dict[str, Scalar]:
    """The short texts, numbers and booleans among the fields, except for the `known` ones."""
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
        case int() if -LARGEST_INTEGER <= value <= LARGEST_INTEGER:
            return value
    return None
