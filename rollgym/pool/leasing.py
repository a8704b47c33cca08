"""Leasing: trainers wait for finished groups, have them for some time, and acknowledge them.

What is answered to a trainer was synced before. A trainer that goes away while its groups are read
has taken none. The rows of a group are read from the journal, for trainers and for filters.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from rollgym.closing import Closable
from rollgym.pool.back_pressure import BackPressure
from rollgym.pool.delivery_log import DeliveryLog
from rollgym.pool.groups import DeliveredGroup, PoolGroup
from rollgym.pool.settings import PoolSettings
from rollgym.pool.source import GroupDraw
from rollgym.pool.state import Acknowledgement, PoolState
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


class Leasing:
    """The trainers of one pool."""

    def __init__(
        self,
        state: PoolState,
        log: DeliveryLog,
        reader: GroupReader,
        back_pressure: BackPressure,
        settings: PoolSettings,
        *,
        is_over: Callable[[PoolGroup], bool],
        wake: Callable[[], None],
        changed: Callable[[], None],
    ) -> None:
        """`is_over` says of a group that none of its rollouts is reopened.

        `wake` starts groups again for a trainer that waits. `changed` is called after groups were
        leased or acknowledged.
        """
        self._state = state
        self._log = log
        self._reader = reader
        self._back_pressure = back_pressure
        self._settings = settings
        self._is_over = is_over
        self._wake = wake
        self._changed = changed
        self._news = asyncio.Event()

    def notify(self) -> None:
        """Something has changed: trainers that wait look again."""
        news, self._news = self._news, asyncio.Event()
        news.set()

    @property
    def is_full(self) -> bool:
        """Whether trainers have as many groups as they may have without acknowledging any."""
        return self._state.leased >= self._settings.max_leased

    async def lease(
        self,
        trainer: str,
        most: int,
        wait: float,
        *,
        restarted: bool,
        has_ended: Callable[[], bool],
    ) -> list[DeliveredGroup]:
        """Up to `most` groups, after `wait` seconds at the latest; none where `has_ended`.

        `has_ended` raises the error of a pool that has stopped. Raises StoreError.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait
        if restarted:
            self._state.release(trainer)
        self._back_pressure.waiting += 1
        try:
            while True:
                news = self._news
                over = has_ended()
                lease_ends = self._state.expire(loop.time())
                if groups := self._deliver(trainer, most):
                    return await self._read(groups)
                self._wake()
                if over or deadline <= loop.time():
                    return []
                until = min(deadline, deadline if lease_ends is None else lease_ends)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout_at(until):
                        await news.wait()
        finally:
            self._back_pressure.waiting -= 1

    async def acknowledge(self, ids: Iterable[str], trainer: str) -> Acknowledgement:
        """The trainer does not need groups of these ids again. Synced to disk on return.

        Raises StoreError.
        """
        result = self._state.acknowledge(ids, trainer)
        await self._log.sync()
        self._changed()
        return result

    def _deliver(self, trainer: str, most: int) -> list[PoolGroup]:
        settings, before = self._settings, self._state.undelivered
        groups = self._state.deliver(
            trainer,
            min(most, settings.max_leased - self._state.leased),
            asyncio.get_running_loop().time() + settings.lease_seconds,
            settings.max_staleness,
            self._is_over,
        )
        if self._state.undelivered != before:
            self._changed()
        return groups

    async def _read(self, groups: list[PoolGroup]) -> list[DeliveredGroup]:
        """Read leased groups; they are taken back where that fails or is cancelled."""
        try:
            await self._log.sync()
            return await self._reader.read(groups)
        except BaseException:
            self._state.take_back(groups)
            self._changed()
            raise
