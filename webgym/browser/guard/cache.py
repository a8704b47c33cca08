"""Answers of a resolver, remembered for a little while.

A page asks for the same few names dozens of times. The cache holds addresses, not judgements: the
guard judges the very addresses that it is about to use, at every connection, so an answer that was
remembered is as safe as a new one. It is short, since names move; it remembers for a moment also
that a name has no address; and it asks once for a name that many wait for.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Sequence

import msgspec

from webgym.browser.guard.addresses import Address
from webgym.browser.guard.resolver import Resolver, UnresolvedError

KEEP_SECONDS = 30.0
KEEP_FAILURE_SECONDS = 2.0
MOST_NAMES = 2_048


class _Entry(msgspec.Struct, frozen=True):
    expires: float
    addresses: Sequence[Address]
    problem: str | None = None


class _Lookup:
    """A question on its way, and how many wait for its answer."""

    __slots__ = ("task", "waiting")

    def __init__(self, task: asyncio.Task[_Entry]) -> None:
        self.task = task
        self.waiting = 0


class CachingResolver:
    """A resolver that asks another one."""

    def __init__(
        self, source: Resolver, keep_seconds: float = KEEP_SECONDS, most_names: int = MOST_NAMES
    ) -> None:
        self._source = source
        self._keep_seconds = keep_seconds
        self._most_names = most_names
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._lookups: dict[str, _Lookup] = {}
        self._tasks: set[asyncio.Task[_Entry]] = set()

    async def resolve(self, name: str) -> Sequence[Address]:
        entry = self._entries.get(name)
        if entry is None or entry.expires <= asyncio.get_running_loop().time():
            entry = await self._answer(name)
        if entry.problem is not None:
            raise UnresolvedError(entry.problem)
        return entry.addresses

    async def close(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._source.close()

    async def _answer(self, name: str) -> _Entry:
        """Wait for the question on its way, or ask it. It ends with the last who waits for it."""
        lookup = self._lookups.get(name)
        if lookup is None:
            task = asyncio.get_running_loop().create_task(self._look_up(name))
            lookup = self._lookups[name] = _Lookup(task)
            self._tasks.add(task)
            task.add_done_callback(lambda done: self._finished(name, done))
        lookup.waiting += 1
        try:
            return await asyncio.shield(lookup.task)
        finally:
            lookup.waiting -= 1
            if not lookup.waiting and self._lookups.get(name) is lookup:
                del self._lookups[name]
                lookup.task.cancel()

    async def _look_up(self, name: str) -> _Entry:
        loop = asyncio.get_running_loop()
        try:
            addresses = await self._source.resolve(name)
        except UnresolvedError as error:
            keep = min(KEEP_FAILURE_SECONDS, self._keep_seconds)
            return _Entry(loop.time() + keep, (), str(error))
        return _Entry(loop.time() + self._keep_seconds, addresses)

    def _finished(self, name: str, lookup: asyncio.Task[_Entry]) -> None:
        self._tasks.discard(lookup)
        current = self._lookups.get(name)
        if current is not None and current.task is lookup:
            del self._lookups[name]
        if lookup.cancelled() or lookup.exception() is not None:
            return
        self._entries[name] = lookup.result()
        self._entries.move_to_end(name)
        if len(self._entries) > self._most_names:
            self._entries.popitem(last=False)
