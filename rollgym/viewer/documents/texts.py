"""Values as texts for people: strings and JSON, cut to what a page shows at once.

JSON for people is made from the bytes themselves, so that numbers stay as they were written.
"""

from collections.abc import Iterator

import msgspec

from rollgym.viewer.values import UNREADABLE, begins, read, start_of, text_of
from rollgym.viewer.view import Text

NAME_LIMIT = 200
LONG = 1 << 20
"""Bytes above which a string is not decoded as a whole."""
_LONGEST_CHARACTER = 12
"""In bytes: two escapes, of a pair of surrogates."""
_ONE_LINE = 60
_CONTAINERS = (b"{", b"[")
_TEXT = msgspec.json.Decoder(str)
_ANYTHING = msgspec.json.Decoder(msgspec.Raw)


def short(text: str | None, limit: int = NAME_LIMIT) -> str:
    """A name that is no longer than a name needs to be; "" for None."""
    if text is None or len(text) <= limit:
        return text or ""
    return f"{text[:limit]}…"


def cut(text: str, limit: int, path: str = "") -> Text:
    return Text(text[:limit], len(text), path)


def is_json(text: str) -> bool:
    """Whether a text is one value of JSON, at whatever depth."""
    try:
        _ANYTHING.decode(text)
    except RecursionError:
        return True
    except ValueError:
        return False
    return True


def string_text(raw: msgspec.Raw | None, limit: int, path: str = "") -> Text | None:
    """A string of the record as a text, None for any other value.

    A long one is decoded piece by piece: one character beyond ASCII can make the whole of it four
    times as large.
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
    size = len(raw)
    if size > 4 * limit:
        return Text(start_of(raw, limit).decode("utf-8", "ignore"), size, path)
    return cut(indented(bytes(raw)), limit, path)


def indented(json: bytes) -> str:
    """Short values on one line, longer objects and arrays over several."""
    try:
        spread = len(json) > _ONE_LINE and json.startswith(_CONTAINERS)
        formatted = msgspec.json.format(json, indent=2 if spread else 0)
    except UNREADABLE:
        formatted = json
    return formatted.decode("utf-8", "replace")
