"""Ranges of difficulty as people write them: `1-3`, `5`, `7+`, `easy`."""

import re

import msgspec

_NAMED = {"easy": "1-3", "medium": "4-6", "hard": "7+"}
_WRITTEN = re.compile(r"(?P<first>\d{1,9})(?:-(?P<last>\d{1,9})|(?P<open>\+))?", re.ASCII)


class DifficultyRange(msgspec.Struct, frozen=True):
    """From `first` to `last`, both included; no end where `last` is None."""

    first: int
    last: int | None

    @classmethod
    def of(cls, written: str) -> "DifficultyRange":
        """Raises ValueError."""
        plain = written.strip().lower()
        found = _WRITTEN.fullmatch(_NAMED.get(plain, plain))
        if found is None:
            raise ValueError(
                f'{written!r} is no range of difficulty: write "1-3", "5", "7+", or easy, medium, '
                "hard"
            )
        first = int(found["first"])
        last = None if found["open"] else int(found["last"] or first)
        if first < 1 or (last is not None and last < first):
            raise ValueError(f"{written!r} is no range of difficulty: it holds none, from 1 on")
        return cls(first, last)

    def holds(self, difficulty: int) -> bool:
        return self.first <= difficulty and (self.last is None or difficulty <= self.last)

    def overlaps(self, other: "DifficultyRange") -> bool:
        return self.holds(other.first) or other.holds(self.first)
