"""Judging finished groups, one after another: the filters decide whether each is delivered."""

import asyncio
from collections.abc import Callable

from rollgym.pool.book import Book
from rollgym.pool.filters import Filters
from rollgym.pool.group_reader import GroupReader
from rollgym.pool.groups import DeliveredGroup, PoolGroup


class Judging:
    """The groups that wait to be judged. `errors` counts the failures of the user's filter."""

    def __init__(
        self,
        book: Book,
        filters: Filters,
        reader: GroupReader,
        *,
        is_refilled: Callable[[PoolGroup], bool],
        judged: Callable[[], None],
    ) -> None:
        """A group that `is_refilled` is put here again later. `judged` is called after each one."""
        self._book = book
        self._filters = filters
        self._reader = reader
        self._is_refilled = is_refilled
        self._judged = judged
        self._waiting: asyncio.Queue[PoolGroup] = asyncio.Queue()

    @property
    def errors(self) -> int:
        return self._filters.errors

    def put(self, group: PoolGroup) -> None:
        """Every rollout of this group has an outcome."""
        self._waiting.put_nowait(group)

    async def run(self) -> None:
        """Judge groups until cancelled. Raises StoreError."""
        while True:
            group = await self._waiting.get()
            if not self._book.is_judged(group.number) and not self._is_refilled(group):
                await self._judge(group)
                self._judged()
            self._waiting.task_done()

    async def all_judged(self) -> None:
        """Wait until no group waits to be judged."""
        await self._waiting.join()

    async def _judge(self, group: PoolGroup) -> None:
        async def read() -> DeliveredGroup:
            return (await self._reader.read([group]))[0]

        reason = await self._filters.reason_to_drop(group, read)
        if reason is None:
            self._book.add_ready(group)
        else:
            self._book.drop(group, reason)
