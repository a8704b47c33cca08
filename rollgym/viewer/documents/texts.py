"""Parts of a record as texts for people: JSON pointers to them, and texts cut to what a page shows.

Pointers follow RFC 6901. JSON is formatted from the bytes themselves, so that numbers stay as they
were written.
"""

from collections.abc import Iterator

import msgspec

from rollgym.viewer.values import UNREADABLE, begins, fields_of, items_of, read, start_of, text_of
from rollgym.viewer.view import Text

LONGEST_INDEX = 12


def child(path: str, name: str | int) -> str:
    """The pointer to a member of the value at `path`."""
    if isinstance(name, int):
        return f"{path}/{name}"
    return f"{path}/{name.replace('~', '~0').replace('/', '~1')}"


def names_in(pointer: str) -> list[str]:
    """The names and indexes of a pointer. Raises KeyError if it is malformed."""
    if not pointer:
        return []
    if not pointer.startswith("/"):
        raise KeyError(pointer)
    return [name.replace("~1", "/").replace("~0", "~") for name in pointer[1:].split("/")]


def value_at(raw: msgspec.Raw, names: list[str]) -> msgspec.Raw:
    """The value at these names. Raises KeyError with the first name that does not exist."""
    for name in names:
        raw = _member(raw, name)
    return raw


def _member(raw: msgspec.Raw, name: str) -> msgspec.Raw:
    fields = fields_of(raw)
    if fields is not None:
        return fields[name]
    items = items_of(raw)
    if items is None or not _is_index(name) or int(name) >= len(items):
        raise KeyError(name)
    return items[int(name)]


def _is_index(name: str) -> bool:
    """Whether a name is an index by RFC 6901: digits without leading zeros."""
    digits = name.isascii() and name.isdecimal() and len(name) <= LONGEST_INDEX
    return digits and (name == "0" or not name.startswith("0"))


NAME_LIMIT = 200
LONG = 1 << 20
"""Bytes above which a string is decoded in pieces."""
_LONGEST_CHARACTER = 12
"""In bytes: the two escapes of a surrogate pair."""
_ONE_LINE = 60
_CONTAINERS = (b"{", b"[")
_TEXT = msgspec.json.Decoder(str)
_ANYTHING = msgspec.json.Decoder(msgspec.Raw)


def short(text: str | None, limit: int = NAME_LIMIT) -> str:
    """A text cut to the limit, with an ellipsis; "" for None."""
    if text is None or len(text) <= limit:
        return text or ""
    return f"{text[:limit]}…"


def cut(text: str, limit: int, path: str = "") -> Text:
    return Text(text[:limit], len(text), path)


def is_json(text: str) -> bool:
    """Whether a text is one JSON value of any depth."""
    try:
        _ANYTHING.decode(text)
    except RecursionError:
        return True
    except ValueError:
        return False
    return True


def string_text(raw: msgspec.Raw | None, limit: int, path: str = "") -> Text | None:
    """A string of the record as a text; None for any other value.

    A long string is decoded in pieces: one character beyond ASCII can make the whole string take
    four times as much memory.
    """
    if raw is None or not begins(raw, b'"') or len(raw) <= LONG:
        text = text_of(raw)
        return None if text is None else cut(text, limit, path)
    shown, size = "", 0
    for piece in _pieces(memoryview(raw)[1:-1]):
        shown += piece[: limit - len(shown)]
        size += len(piece)
    return Text(shown, size, path)


def _pieces(inside: memoryview) -> Iterator[str]:
    """The characters between the quotes, up to the first that cannot be decoded."""
    start = 0
    while start < inside.nbytes:
        for end in range(min(start + LONG, inside.nbytes), start, -1):
            # If the end is inside an escape or a character, it moves in front of it.
            quoted = msgspec.Raw(b'"' + bytes(inside[start:end]) + b'"')
            if (piece := read(quoted, _TEXT)) is not None:
                yield piece
                start = end
                break
            if end <= start + LONG - _LONGEST_CHARACTER:
                return
        else:
            return


def json_text(raw: msgspec.Raw, limit: int, path: str = "") -> Text:
    """A value as JSON, indented where that helps.

    A value that is much longer than the limit is not formatted as a whole: its bytes are cut as
    they are, and its size is counted in bytes.
    """
    size = len(raw)
    if size > 4 * limit:
        return Text(start_of(raw, limit).decode("utf-8", "ignore"), size, path)
    return cut(indented(bytes(raw)), limit, path)


def indented(json: bytes) -> str:
    """JSON for people: short values on one line, longer objects and arrays on several."""
    try:
        spread = len(json) > _ONE_LINE and json.startswith(_CONTAINERS)
        formatted = msgspec.json.format(json, indent=2 if spread else 0)
    except UNREADABLE:
        formatted = json
    return formatted.decode("utf-8", "replace")
