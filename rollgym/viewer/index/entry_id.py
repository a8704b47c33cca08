"""The name of a record within its source: the part it is in, and its number in that file."""

import re
from typing import NamedTuple

_SHIFT = 32
_TEXT = re.compile(r"(0|[1-9][0-9]{0,8})-([1-9][0-9]{0,9})")


class EntryId(NamedTuple):
    """`record` counts from 1: of a file by lines it is the line number.

    It is the same whenever the index is built anew, so it may stand in links.
    """

    part: int
    record: int

    @classmethod
    def parse(cls, text: str) -> "EntryId":
        """From the form `0-17`. Raises ValueError."""
        match = _TEXT.fullmatch(text)
        if match is None or int(match[2]) >= 1 << _SHIFT:
            raise ValueError(f"{text[:40]!r} names no record: give it as part-record, such as 0-17")
        return cls(int(match[1]), int(match[2]))

    @classmethod
    def of(cls, number: int) -> "EntryId":
        """From the number that the index has it under."""
        return cls(number >> _SHIFT, number & ((1 << _SHIFT) - 1))

    @property
    def number(self) -> int:
        """What the index has it under, as `entry.id`."""
        return self.part << _SHIFT | self.record

    def __str__(self) -> str:
        return f"{self.part}-{self.record}"
