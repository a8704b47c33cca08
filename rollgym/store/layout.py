"""The files of a run directory, and the shards that divide a run between processes."""

import re
from pathlib import Path

import msgspec

MANIFEST = "manifest.json"
INPUTS = "inputs.jsonl"
BLOBS = "blobs"
OPENING_LOCK = ".opening.lock"
RUN_LOCK = ".run.lock"
_SHARD_LOCK = re.compile(r"\.journal-(\d+)-of-(\d+)\.lock")


class Shard(msgspec.Struct, frozen=True):
    """One of `count` parts of a run that processes collect at the same time, from 0."""

    index: int = 0
    count: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.index < self.count:
            raise ValueError(
                f"shard {self.index}/{self.count}: the index must be from 0 to count - 1"
            )

    @classmethod
    def parse(cls, text: str) -> "Shard":
        """Read the form `i/n`. Raises ValueError."""
        match = re.fullmatch(r"(\d+)/(\d+)", text)
        if not match:
            raise ValueError(f"shard {text!r}: give it as i/n, such as 0/4")
        return cls(int(match[1]), int(match[2]))

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"

    def holds(self, position: int) -> bool:
        """Whether the task at this position of the inputs belongs to the shard."""
        return position % self.count == self.index


WHOLE = Shard()


def inputs_path(directory: Path) -> Path:
    return directory / INPUTS


def journal_path(directory: Path, shard: Shard) -> Path:
    return directory / f"journal{_suffix(shard)}.jsonl"


def journal_paths(directory: Path) -> list[Path]:
    """Every journal of a run, including those of shards."""
    return sorted(directory.glob("journal*.jsonl"))


def control_path(directory: Path, shard: Shard) -> Path:
    """The log of what was changed while a collection ran."""
    return directory / f"control{_suffix(shard)}.jsonl"


def control_paths(directory: Path) -> list[Path]:
    """Every control log of a run, including those of shards."""
    return sorted(directory.glob("control*.jsonl"))


def shard_lock_path(directory: Path, shard: Shard) -> Path:
    return directory / f".journal{_suffix(shard)}.lock"


def shard_locks(directory: Path) -> dict[Path, Shard]:
    """The lock files of shards, held or not."""
    found = {path: _SHARD_LOCK.fullmatch(path.name) for path in sorted(directory.iterdir())}
    return {path: Shard(int(match[1]), int(match[2])) for path, match in found.items() if match}


def _suffix(shard: Shard) -> str:
    return "" if shard == WHOLE else f"-{shard.index}-of-{shard.count}"
