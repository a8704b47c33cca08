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
from rollgym.viewer.summary import FIELD_LIMIT, Scalar

T = TypeVar("T")
Fields: TypeAlias = Mapping[str, msgspec.Raw]

ABSENT = msgspec.Raw(b"")
LARGEST_INTEGER = (1 << 63) - 1
"""The largest number that an index can hold."""
UNREADABLE = (ValueError, RecursionError)
"""What a decoder raises: of what is no JSON, of another type, no UTF-8, or nested too deeply."""

_SHORT = 1 << 10
_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ITEMS = msgspec.json.Decoder(list[msgspec.Raw])
_TEXT = msgspec.json.Decoder(str)
_NUMBER = msgspec.json.Decoder(float)
_COUNT = msgspec.json.Decoder(int)
_FLAG = msgspec.json.Decoder(bool)


def fields_of_record(record: bytes) -> dict[str, msgspec.Raw]:
    """The fields of a record. Raises ValueError for what is no JSON object, RecursionError."""
    return _FIELDS.decode(record)


def read(raw: msgspec.Raw | None, decoder: msgspec.json.Decoder[T]) -> T | None:
    """The value, where the decoder can read it."""
    if raw is None:
        return None
    try:
        return decoder.decode(raw)
    except UNREADABLE:
        return None


# The index asks these dozens of times of each record, most often for what is not there.


def fields_of(raw: msgspec.Raw | None) -> dict[str, msgspec.Raw] | None:
    return None if raw is None or _is_long_string(raw) else read(raw, _FIELDS)


def items_of(raw: msgspec.Raw | None) -> list[msgspec.Raw] | None:
    return None if raw is None or _is_long_string(raw) else read(raw, _ITEMS)


def text_of(raw: msgspec.Raw | None) -> str | None:
    return None if raw is None else read(raw, _TEXT)


def number_of(raw: msgspec.Raw | None) -> float | None:
    return None if raw is None else read(raw, _NUMBER)


def count_of(raw: msgspec.Raw | None) -> int | None:
    """A whole number that is not negative, of at most 63 bits."""
    count = None if raw is None else read(raw, _COUNT)
    return count if count is not None and 0 <= count <= LARGEST_INTEGER else None


def flag_of(raw: msgspec.Raw | None) -> bool | None:
    return None if raw is None else read(raw, _FLAG)


def begins(raw: msgspec.Raw | None, mark: bytes) -> bool:
    """Whether a value is of a type, told by its first byte: `[`, `{` or a quote."""
    return raw is not None and len(raw) > 0 and memoryview(raw)[0] == mark[0]


def _is_long_string(raw: msgspec.Raw) -> bool:
    """A decoder takes all of a string apart before it finds that it is none that it reads."""
    return len(raw) > _SHORT and begins(raw, b'"')


def is_present(raw: msgspec.Raw | None) -> bool:
    """Whether there is a value, and it is not null."""
    return raw is not None and start_of(raw, 5) not in (b"", b"null")


def start_of(raw: msgspec.Raw, length: int) -> bytes:
    """How its bytes begin."""
    return bytes(memoryview(raw)[:length])


def raw_of(value: Any) -> msgspec.Raw:
    """A value of ours as the fields of a row have theirs."""
    return msgspec.Raw(msgspec.json.encode(value))


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
        case int() if -LARGEST_INTEGER <= value <= LARGEST_INTEGER:
            return value
    return None
