"""Leasing: trainers wait for finished groups, have them for some time, and acknowledge them.

What is answered to a trainer was synced before. A trainer that goes away while its groups are read
has taken none.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterable

from rollgym.pool.back_pressure import BackPressure
from rollgym.pool.delivery_log import DeliveryLog
from rollgym.pool.group_reader import GroupReader
from rollgym.pool.groups import DeliveredGroup, PoolGroup
from rollgym.pool.settings import PoolSettings
from rollgym.pool.state import Acknowledgement, PoolState


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
