"""Where things are in a run directory."""

import re
from pathlib import Path

from rollgym.store.shard import WHOLE, Shard

MANIFEST = "manifest.json"
INPUTS = "inputs.jsonl"
BLOBS = "blobs"
OPENING_LOCK = ".opening.lock"
RUN_LOCK = ".run.lock"
_SHARD_LOCK = re.compile(r"\.journal-(\d+)-of-(\d+)\.lock")


def inputs_path(directory: Path) -> Path:
    return directory / INPUTS


def journal_path(directory: Path, shard: Shard) -> Path:
    return directory / f"journal{_suffix(shard)}.jsonl"


def journal_paths(directory: Path) -> list[Path]:
    """Every journal of a run, whole and of shards."""
    return sorted(directory.glob("journal*.jsonl"))


def shard_lock_path(directory: Path, shard: Shard) -> Path:
    return directory / f".journal{_suffix(shard)}.lock"


def shard_locks(directory: Path) -> dict[Path, Shard]:
    """The lock files there are of shards, held or not."""
    found = {path: _SHARD_LOCK.fullmatch(path.name) for path in sorted(directory.iterdir())}
    return {path: Shard(int(match[1]), int(match[2])) for path, match in found.items() if match}


def _suffix(shard: Shard) -> str:
    return "" if shard == WHOLE else f"-{shard.index}-of-{shard.count}"
