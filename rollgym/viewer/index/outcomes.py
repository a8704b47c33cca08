"""Which of several records of one rollout is its outcome.

A completed record comes before a failed one, a failed one before an omitted one, and any of them
before an input that was not run; then the highest attempt wins, then the first record. Attempts
that were followed by a retry are never outcomes. A journal has one outcome for each rollout. In a
file of rollouts every completed record is an outcome, because users expect to see all rows of their
file.

A set with one bit for each rollout tells which have a second record. Only those are looked up.
"""

import sqlite3
from collections.abc import Sequence
from typing import NamedTuple

from rollgym.store import KeySet
from rollgym.viewer.source import EntryId, SourcePart, is_journal
from rollgym.viewer.summary import EntryStatus, RecordSummary

_RANKS: dict[str, int] = {
    EntryStatus.COMPLETED: 0,
    EntryStatus.FAILED: 1,
    EntryStatus.OMITTED: 2,
    EntryStatus.INPUT: 3,
}


class OutcomeCandidate(NamedTuple):
    """A record that may be its rollout's outcome."""

    id: int
    status: str
    attempt: int | None
    in_journal: bool

    @property
    def rank(self) -> int | None:
        return _RANKS.get(self.status)


def outcome_ids(candidates: Sequence[OutcomeCandidate]) -> set[int]:
    """The ids of the records of one rollout that are its outcomes."""
    ranked = [(each.rank, each) for each in candidates if each.rank is not None]
    if not ranked:
        return set()
    least = min(rank for rank, _ in ranked)
    best = [each for rank, each in ranked if rank == least]
    if least == _RANKS[EntryStatus.COMPLETED]:
        free = {each.id for each in best if not each.in_journal}
        if free:
            return free
    return {max(best, key=lambda each: (each.attempt or 0, -each.id)).id}


class OutcomeSelector:
    """Keeps `entry.is_outcome` correct while records are added and removed."""

    def __init__(self, connection: sqlite3.Connection, parts: Sequence[SourcePart]) -> None:
        """Reads which rollouts the index has."""
        self._connection = connection
        self._parts = parts
        self._seen = KeySet()
        self._several: set[tuple[int, int]] = set()
        for task, repeat in connection.execute(
            "SELECT DISTINCT task, repeat FROM entry WHERE task IS NOT NULL AND repeat IS NOT NULL"
        ):
            self._seen.add(task, repeat)

    def note(self, summary: RecordSummary) -> bool:
        """Note a record that is about to be added; returns whether it may be an outcome."""
        if summary.status is EntryStatus.RETRIED:
            return False
        if summary.task is not None and summary.repeat is not None:
            self._seen_again(summary.task, summary.repeat)
        return True

    def reconsider(self, task: int | None, repeat: int | None) -> None:
        """Note that a record of this rollout was removed."""
        if task is not None and repeat is not None:
            self._several.add((task, repeat))

    def choose(self) -> None:
        """Choose the outcomes of rollouts with several records, which must be in the table."""
        if not self._several:
            return
        changes: list[tuple[int, int]] = []
        journals = {number for number, part in enumerate(self._parts) if is_journal(part.path)}
        for key in self._several:
            rows = self._connection.execute(
                "SELECT id, status, attempt, is_outcome FROM entry WHERE task = ? AND repeat = ?",
                key,
            ).fetchall()
            chosen = outcome_ids(
                [
                    OutcomeCandidate(number, status, attempt, EntryId.of(number).part in journals)
                    for number, status, attempt, _ in rows
                ]
            )
            for number, _, _, was_outcome in rows:
                if (number in chosen) != bool(was_outcome):
                    changes.append((number in chosen, number))
        self._connection.executemany("UPDATE entry SET is_outcome = ? WHERE id = ?", changes)
        self._several.clear()

    def _seen_again(self, task: int, repeat: int) -> None:
        if not self._seen.add(task, repeat):
            self._several.add((task, repeat))
