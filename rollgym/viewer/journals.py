"""Which files are the journals of a run, also those that are not there yet.

Whether a file is one is told by its name: listing a folder for each file of it would take time that
grows with the square of its files.
"""

import re
from pathlib import Path

from rollgym.store import WHOLE, Shard, journal_paths
from rollgym.store.layout import journal_path

MOST_SHARDS = 1024
_NAME = "journal*.jsonl"
_SHARD = re.compile(r"journal-(\d{1,9})-of-(\d{1,9})\.jsonl")


def is_journal(path: Path) -> bool:
    """Whether `rollgym.store.journal_paths` of its folder would have it, if it is there."""
    return path.match(_NAME)


def journals_of(run: Path) -> list[Path]:
    """Those of the whole and of all shards, in an order that stays when another shard begins.

    A shard says how many there are. Of a run without a journal it is the one that there will be.
    """
    found = journal_paths(run)
    counts = {int(match[2]) for match in map(_match, found) if match}
    shards = (
        Shard(index, count) for count in counts if count <= MOST_SHARDS for index in range(count)
    )
    journals = {*found, *(journal_path(run, shard) for shard in shards)}
    return sorted(journals or {journal_path(run, WHOLE)}, key=_order)


def _match(journal: Path) -> re.Match[str] | None:
    return _SHARD.fullmatch(journal.name)


def _order(journal: Path) -> tuple[int, int, str]:
    match = _match(journal)
    return (int(match[2]), int(match[1]), "") if match else (0, 0, journal.name)
