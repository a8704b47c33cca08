"""Parts of a run that several processes collect at the same time."""

import re

import msgspec


class Shard(msgspec.Struct, frozen=True):
    """The `index`-th of `count` parts of a run, from 0."""

    index: int = 0
    count: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.index < self.count:
            raise ValueError(f"shard {self.index}/{self.count}: counts from 0/n to n-1/n")

    @classmethod
    def parse(cls, text: str) -> "Shard":
        """From the form `i/n`. Raises ValueError."""
        match = re.fullmatch(r"(\d+)/(\d+)", text)
        if not match:
            raise ValueError(f"shard {text!r}: give it as i/n, such as 0/4")
        return cls(int(match[1]), int(match[2]))

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"

    def takes(self, position: int) -> bool:
        return position % self.count == self.index


WHOLE = Shard()
