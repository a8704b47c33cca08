"""Reading finished groups: the rows of their rollouts, from the journal."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from rollgym.closing import Closable
from rollgym.pool.groups import DeliveredGroup, PoolGroup
from rollgym.pool.source import GroupDraw
from rollgym.pool.state import PoolState
from rollgym.records import Attempt, Row, Task
from rollgym.store import RecordLookup

RowOf = Callable[[Task, Attempt], Row]
"""Makes the row of a completed rollout."""
InThread = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Runs a function so that the event loop is not blocked."""


class GroupReader(Closable):
    """Makes groups as trainers get them."""

    def __init__(
        self, journal: Path, draw: GroupDraw, state: PoolState, row_of: RowOf, in_thread: InThread
    ) -> None:
        self._journal = journal
        self._draw = draw
        self._state = state
        self._row_of = row_of
        self._in_thread = in_thread
        self._records = RecordLookup()

    async def read(self, groups: Sequence[PoolGroup]) -> list[DeliveredGroup]:
        """Read groups with their rows. Raises CorruptJournalError, StorageError."""
        found: list[DeliveredGroup] = []
        for group in groups:
            # Not in the thread: they may change meanwhile.
            versions, short, deliveries = (
                self._state.versions_of(group),
                group.short,
                group.deliveries,
            )
            offsets = [member.offset for member in group.completed]
            task, rows = await self._in_thread(partial(self._rows, group.number, offsets))
            found.append(
                DeliveredGroup(
                    id=group.id,
                    number=group.number,
                    task=task,
                    delivery=deliveries,
                    complete=short is None,
                    reason=short,
                    versions=versions,
                    rollouts=rows,
                )
            )
        return found

    def close(self) -> None:
        self._records.close()

    def _rows(self, number: int, offsets: Sequence[int]) -> tuple[int, list[msgspec.Raw]]:
        """The index of the row of the dataset, and the rows of the rollouts."""
        task = self._draw.task(number)
        attempts = (self._records.record(self._journal, offset) for offset in offsets)
        rows = [msgspec.Raw(self._row_of(task, attempt).raw) for attempt in attempts]
        return self._draw.dataset_row(number), rows
