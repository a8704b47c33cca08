"""How a text is spelled in the bytes of a record, and where it is found in them.

Case does not matter. For the letters of ASCII both sides are made lower, which leaves all other
bytes of UTF-8 alone, so that most texts are found as the bytes that they are. Of a text with other
letters that have a case, each may be found in any (`ö`, `Ö`): it is looked for with an expression,
which takes longer. A letter is only ever the same as another one letter: `ß` is not `SS`.

In JSON a text can be spelled with its characters as they are, or as escapes (`\\u00fc`); quotes,
backslashes and line breaks are always escapes. A find that begins inside an escape, as with the `n`
of `\\n` or the `2019` of `\\u2019`, is none. Other archives have their texts as they are.
"""

import json
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache

_BEGUN_ESCAPE = re.compile(rb"(?<!\\)\\(?:\\\\)*(?:u[0-9a-fA-F]{0,3})?$")
"""An odd number of backslashes, and as much of a character's number as is not the last digit."""
_LONGEST_NUMBER = 5
LONGEST_ESCAPE = 64
"""How many bytes before a find are looked at, most of which would be backslashes."""
_FIRST_BEYOND_ASCII, _LAST_WITH_CASE = 0x80, 0x1FFFF

_Find = Callable[[bytes, int], tuple[int, int]]
"""Where the next find from an offset on begins and ends; it begins at -1 where there is none."""


class Spelling:
    """The spellings of one text, in one kind of file."""

    def __init__(self, text: str, *, in_json: bool) -> None:
        # Half of a surrogate pair has no bytes of its own, and so is in no file.
        plain = text.encode("utf-8", "replace").decode("utf-8")
        self._in_json = in_json
        self._finds: list[_Find]
        if has_case_beyond_ascii(plain):
            spelled = [_any_case(character, in_json=in_json) for character in plain]
            self._finds = [_expression(spelled)]
            self._as_it_is = False
            self.longest = sum(max(map(len, each)) for each in spelled)
        else:
            patterns = _spelled(plain, in_json=in_json)
            self._finds = [_literal(pattern) for pattern in patterns]
            self._as_it_is = all(pattern == pattern.upper() for pattern in patterns)
            self.longest = max(map(len, patterns))

    def is_in(self, data: bytes, begin: int = 0) -> bool:
        """Whether the text is in a record, or from an offset on in a piece of one."""
        return next(self.records_in(data, [begin], [len(data)]), None) is not None

    def records_in(self, data: bytes, begins: Sequence[int], ends: Sequence[int]) -> Iterator[int]:
        """The indexes of the records that have the text, not in order, and some of them twice.

        Records begin and end at these offsets of the data, in order.
        """
        if not self._as_it_is:
            data = data.lower()
        for find in self._finds:
            offset, end = find(data, 0)
            while offset >= 0:
                record = bisect_right(begins, offset) - 1
                if record >= 0 and end <= ends[record] and not self._is_escaped(data, offset):
                    yield record
                    offset, end = find(data, ends[record])
                else:
                    offset, end = find(data, offset + 1)

    def _is_escaped(self, data: bytes, offset: int) -> bool:
        if not self._in_json or data.find(b"\\", max(0, offset - _LONGEST_NUMBER), offset) < 0:
            return False
        before = data[max(0, offset - LONGEST_ESCAPE) : offset]
        return _BEGUN_ESCAPE.search(before) is not None


def has_case_beyond_ascii(text: str) -> bool:
    """Whether a letter of the text, other than those of ASCII, is upper or lower case."""
    return not text.isascii() and not _same_letters().keys().isdisjoint(text)


def _spelled(text: str, *, in_json: bool) -> list[bytes]:
    """With the letters of ASCII lower."""
    if not in_json:
        return [text.encode().lower()]
    spelled = (json.dumps(text, ensure_ascii=escaped)[1:-1] for escaped in (False, True))
    return sorted({each.encode().lower() for each in spelled})


def _any_case(character: str, *, in_json: bool) -> list[bytes]:
    letters = _same_letters().get(character, character)
    return [each for letter in letters for each in _spelled(letter, in_json=in_json)]


def _literal(pattern: bytes) -> _Find:
    def find(data: bytes, start: int) -> tuple[int, int]:
        offset = data.find(pattern, start)
        return offset, offset + len(pattern)

    return find


def _expression(spelled: Sequence[Sequence[bytes]]) -> _Find:
    """Of several spellings of each character in a row."""
    expression = re.compile(
        b"".join(b"(?:%b)" % b"|".join(map(re.escape, each)) for each in spelled)
    )

    def find(data: bytes, start: int) -> tuple[int, int]:
        found = expression.search(data, start)
        return (-1, -1) if found is None else found.span()

    return find


@cache
def _same_letters() -> Mapping[str, str]:
    """The letters beyond ASCII that have a case, each with all that differ from it in case only."""
    folded: dict[str, str] = {}
    for letter in map(chr, range(_FIRST_BEYOND_ASCII, _LAST_WITH_CASE + 1)):
        fold = letter.casefold()
        folded.setdefault(fold, fold if fold.isascii() and len(fold) == 1 else "")
        folded[fold] += letter
    return {
        letter: letters
        for letters in folded.values()
        if len(letters) > 1
        for letter in letters
        if not letter.isascii()
    }
