"""Which turns a text occurs in.

The bytes of an item are looked through first, in windows and without decoding: a turn can show a
text only if its item holds the text's longest run of letters and digits. Those that do are read as
they are shown, in full, since the bytes also hold names of fields and pictures. Of an item that is
too long for that, the bytes themselves have to hold the text as JSON writes it.
"""

import re
from collections.abc import Callable, Iterator

import msgspec

from rollgym.viewer.view import Text, Turn

LONGEST_READ = 4 << 20
_WINDOW = 1 << 20
_RUN = re.compile(r"[a-z0-9]+")


class Needle:
    """A text that is looked for, in whatever case."""

    def __init__(self, text: str) -> None:
        self._text = text.lower()
        self._run = max(_RUN.findall(self._text), key=len, default="").encode()
        self._written = msgspec.json.encode(self._text)[1:-1]

    def is_in(self, raw: msgspec.Raw, turn: Callable[[], Turn]) -> bool:
        """Whether the turn of this item shows it; `turn` reads that in full."""
        if len(raw) > LONGEST_READ:
            return _holds(raw, self._written)
        return _holds(raw, self._run) and any(self._text in text.lower() for text in _texts(turn()))


def _holds(raw: msgspec.Raw, lowered: bytes) -> bool:
    view, overlap = memoryview(raw), len(lowered)
    return any(
        lowered in bytes(view[start : start + _WINDOW + overlap]).lower()
        for start in range(0, view.nbytes, _WINDOW)
    )


def _texts(turn: Turn) -> Iterator[str]:
    yield from (part.text for part in turn.parts if isinstance(part, Text))
    yield turn.reasoning.text if turn.reasoning else ""
    for call in turn.calls:
        yield call.name
        yield call.arguments.text
