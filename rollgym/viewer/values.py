"""Readers of somebody's JSON, a level at a time.

Rows come from our own collections and from other people's files. A record may be fifty megabytes,
and little of it is wanted at once: a value stays the bytes it is (`msgspec.Raw`, a window on the
record's own bytes) until somebody asks for it, and then only its first level is taken apart.
Nothing is assumed. A value of another type, nested too deeply, or not to be decoded reads as None,
as if it were not there, and is never a reason to pass over the row.
"""

from collections.abc import Mapping
from typing import Any, TypeAlias, TypeVar

import msgspec

T = TypeVar("T")
Fields: TypeAlias = Mapping[str, msgspec.Raw]

ABSENT = msgspec.Raw(b"")
LARGEST = (1 << 63) - 1
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
    return count if count is not None and 0 <= count <= LARGEST else None


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
