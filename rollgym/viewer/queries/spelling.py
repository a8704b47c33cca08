"""How a text is spelled in the bytes of a record, and where it is found in them.

Case does not matter for the letters of ASCII: both sides are made lower, which leaves all other
bytes of UTF-8 alone. In JSON a text can be spelled with its characters as they are, or as escapes
(`\\u00fc`); quotes, backslashes and line breaks are always escapes. A find that begins inside an
escape, as with the `n` of `\\n` or the `2019` of `\\u2019`, is none. Other archives have their
texts as they are.
"""

import json
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence

_BEGUN_ESCAPE = re.compile(rb"(?<!\\)\\(?:\\\\)*(?:u[0-9a-fA-F]{0,3})?$")
"""An odd number of backslashes, and as much of a character's number as is not the last digit."""
_LONGEST_NUMBER = 5
LONGEST_ESCAPE = 64
"""How many bytes before a find are looked at, most of which would be backslashes."""


class Spelling:
    """The spellings of one text, in one kind of file."""

    def __init__(self, text: str, *, in_json: bool) -> None:
        # Half of a surrogate pair has no bytes of its own, and so is in no file.
        plain = text.encode("utf-8", "replace")
        spelled = {plain}
        if in_json:
            escaped = json.dumps(plain.decode("utf-8"), ensure_ascii=False)[1:-1]
            spelled = {escaped.encode("utf-8"), json.dumps(plain.decode("utf-8"))[1:-1].encode()}
        self._in_json = in_json
        self._patterns = sorted(pattern.lower() for pattern in spelled)
        self._as_it_is = all(pattern == pattern.upper() for pattern in self._patterns)
        self.longest = max(map(len, self._patterns))

    def is_in(self, data: bytes, begin: int = 0) -> bool:
        """Whether the text is in a record, or from an offset on in a piece of one."""
        return next(self.records_in(data, [begin], [len(data)]), None) is not None

    def records_in(self, data: bytes, begins: Sequence[int], ends: Sequence[int]) -> Iterator[int]:
        """The indexes of the records that have the text, not in order, and some of them twice.

        Records begin and end at these offsets of the data, in order.
        """
        if not self._as_it_is:
            data = data.lower()
        for pattern in self._patterns:
            offset = data.find(pattern)
            while offset >= 0:
                record = bisect_right(begins, offset) - 1
                if (
                    record >= 0
                    and offset + len(pattern) <= ends[record]
                    and not self._is_escaped(data, offset)
                ):
                    yield record
                    offset = data.find(pattern, ends[record])
                else:
                    offset = data.find(pattern, offset + 1)

    def _is_escaped(self, data: bytes, offset: int) -> bool:
        if not self._in_json or data.find(b"\\", max(0, offset - _LONGEST_NUMBER), offset) < 0:
            return False
        before = data[max(0, offset - LONGEST_ESCAPE) : offset]
        return _BEGUN_ESCAPE.search(before) is not None
