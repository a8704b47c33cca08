"""Which files are journals of runs, told by their names.

Listing a folder for each file of it would take time that grows with the square of its files.
"""

from pathlib import Path

_NAME = "journal*.jsonl"


def is_journal(path: Path) -> bool:
    """Whether `rollgym.store.journal_paths` of its folder would have it, if it is there."""
    return path.match(_NAME)
