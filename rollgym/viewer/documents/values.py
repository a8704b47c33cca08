"""JSON that is looked at a level at a time.

A record may be fifty megabytes, and little of it is wanted at once. So a value stays the bytes it
is (`msgspec.Raw`, a window on the record's own bytes) until somebody asks for it, and then only its
first level is taken apart. Nothing is assumed: a value of another type, nested too deeply, or
not to be decoded reads as None. JSON for people is made from the bytes themselves, so that numbers
stay as they were written.
"""

import math
from collections.abc import Iterator
from typing import Any, TypeAlias, TypeVar

import msgspec

from rollgym.viewer.view import Text

T = TypeVar("T")
Fields: TypeAlias = dict[str, msgspec.Raw]

ABSENT = msgspec.Raw(b"")
NAME_LIMIT = 200
LONG = 1 << 20
"""Bytes above which a string is not decoded as a whole."""
_LONGEST_CHARACTER = 12
"""In bytes: two escapes, of a pair of surrogates."""
_ONE_LINE = 60
_LARGEST_COUNT = 2**53
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_CONTAINERS = (b"{", b"[")

_FIELDS = msgspec.json.Decoder(Fields)
_ITEMS = msgspec.json.Decoder(list[msgspec.Raw])
_TEXT = msgspec.json.Decoder(str)
_NUMBER = msgspec.json.Decoder(float)
_COUNT = msgspec.json.Decoder(int)
_FLAG = msgspec.json.Decoder(bool)
_ANYTHING = msgspec.json.Decoder(msgspec.Raw)


def read(raw: msgspec.Raw | None, decoder: msgspec.json.Decoder[T]) -> T | None:
    """The value, where the decoder can read it."""
    if raw is None:
        return None
    try:
        return decoder.decode(raw)
    except _UNREADABLE:
        return None


def fields_of(raw: msgspec.Raw | None) -> Fields | None:
    return read(raw, _FIELDS) if _begins(raw, b"{") else None


def items_of(raw: msgspec.Raw | None) -> list[msgspec.Raw] | None:
    return read(raw, _ITEMS) if _begins(raw, b"[") else None


def text_of(raw: msgspec.Raw | None) -> str | None:
    return read(raw, _TEXT) if _begins(raw, b'"') else None


def number_of(raw: msgspec.Raw | None) -> float | None:
    number = read(raw, _NUMBER)
    return number if number is not None and math.isfinite(number) else None


def count_of(raw: msgspec.Raw | None) -> int | None:
    """A whole number that is not negative, and that every reader of JSON can hold."""
    count = read(raw, _COUNT)
    return count if count is not None and 0 <= count <= _LARGEST_COUNT else None


def flag_of(raw: msgspec.Raw | None) -> bool | None:
    return read(raw, _FLAG)


def is_present(raw: msgspec.Raw | None) -> bool:
    """Whether there is a value, and it is not null."""
    return raw is not None and start_of(raw, 5) not in (b"", b"null")


def is_json(text: str) -> bool:
    """Whether a text is one value of JSON, at whatever depth."""
    try:
        _ANYTHING.decode(text)
    except RecursionError:
        return True
    except _UNREADABLE:
        return False
    return True


def raw_of(value: Any) -> msgspec.Raw:
    """A value of ours as the fields of a row have theirs."""
    return msgspec.Raw(msgspec.json.encode(value))


def start_of(raw: msgspec.Raw, length: int) -> bytes:
    """How its bytes begin."""
    return bytes(memoryview(raw)[:length])


def _begins(raw: msgspec.Raw | None, mark: bytes) -> bool:
    """Asked first: a decoder takes a long string apart before it finds that it is no object."""
    return raw is not None and start_of(raw, 1) == mark


def size_of(raw: msgspec.Raw) -> int:
    """How many bytes it has."""
    return memoryview(raw).nbytes


def short(text: str | None, limit: int = NAME_LIMIT) -> str:
    """A name that is no longer than a name needs to be; "" for None."""
    if text is None or len(text) <= limit:
        return text or ""
    return f"{text[:limit]}…"


def cut(text: str, limit: int, path: str = "") -> Text:
    return Text(text[:limit], len(text), path)


def string_text(raw: msgspec.Raw | None, limit: int, path: str = "") -> Text | None:
    """A string of the record as a text, None for any other value.

    A long one is decoded piece by piece: one character beyond ASCII can make the whole of it four
    times as large.
    """
    if raw is None or not _begins(raw, b'"') or size_of(raw) <= LONG:
        text = text_of(raw)
        return None if text is None else cut(text, limit, path)
    shown, size = "", 0
    for piece in _pieces(memoryview(raw)[1:-1]):
        shown += piece[: limit - len(shown)]
        size += len(piece)
    return Text(shown, size, path)


def _pieces(inside: memoryview) -> Iterator[str]:
    """The characters between the quotes. Ends where they cannot be decoded."""
    start = 0
    while start < inside.nbytes:
        for end in range(min(start + LONG, inside.nbytes), start, -1):
            # An end inside an escape or a character is moved in front of it.
            if (piece := read(_quoted(inside[start:end]), _TEXT)) is not None:
                yield piece
                start = end
                break
            if end <= start + LONG - _LONGEST_CHARACTER:
                return
        else:
            return


def _quoted(inside: memoryview) -> msgspec.Raw:
    return msgspec.Raw(b'"' + bytes(inside) + b'"')


def json_text(raw: msgspec.Raw, limit: int, path: str = "") -> Text:
    """A value as JSON, indented where that helps.

    One that is much longer than the limit is not taken into hand as a whole for it: it is cut from
    its bytes as they are, and its size is counted in bytes.
    """
    size = size_of(raw)
    if size > 4 * limit:
        return Text(start_of(raw, limit).decode("utf-8", "ignore"), size, path)
    return cut(indented(bytes(raw)), limit, path)


def indented(json: bytes) -> str:
    """Short values on one line, longer objects and arrays over several."""
    try:
        spread = len(json) > _ONE_LINE and json.startswith(_CONTAINERS)
        formatted = msgspec.json.format(json, indent=2 if spread else 0)
    except _UNREADABLE:
        formatted = json
    return formatted.decode("utf-8", "replace")
