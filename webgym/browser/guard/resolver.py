"""From a name to its addresses.

`HostResolver` is the interface: the guard checks and uses the addresses that it returns.
`SystemResolver` asks the operating system, in a bounded number of separate threads: a page with
many names that never resolve can neither take the threads of others nor queue work without end.

`CachingResolver` remembers answers for a short time, because a page asks for the same few names
dozens of times. The cache holds addresses, not judgements: the guard checks the addresses at every
connection, so a cached answer is as safe as a new one. It also remembers for a moment that a name
has no address, and asks only once for a name that many connections wait for.
"""

import asyncio
import socket
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

import msgspec

from webgym.browser.guard.addresses import IpAddress, read_address

LOOKUPS_AT_ONCE = 32
MOST_ADDRESSES = 64


class UnresolvedError(Exception):
    """The name has no address."""


class HostResolver(Protocol):
    """Finds the addresses of names."""

    async def resolve(self, name: str) -> Sequence[IpAddress]:
        """All addresses of a name, in the order to try them. Raises UnresolvedError."""
        ...

    async def close(self) -> None:
        """Release all resources. `resolve` is not called afterwards."""
        ...


class SystemResolver:
    """Asks the operating system, as other programs do."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(LOOKUPS_AT_ONCE, thread_name_prefix="resolver")
        self._free = asyncio.Semaphore(LOOKUPS_AT_ONCE)

    async def resolve(self, name: str) -> Sequence[IpAddress]:
        await self._free.acquire()
        # A caller may stop waiting, but its thread continues: the slot is free when the thread is.
        lookup = asyncio.get_running_loop().run_in_executor(self._threads, _look_up, name)
        lookup.add_done_callback(self._release)
        try:
            return await asyncio.shield(lookup)
        except OSError as error:
            raise UnresolvedError(f"{name} has no address: {error.strerror}") from error
        except UnicodeError as error:
            raise UnresolvedError(f"{name!r} is not a host name") from error

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _release(self, lookup: asyncio.Future[Sequence[IpAddress]]) -> None:
        self._free.release()
        if not lookup.cancelled():
            lookup.exception()  # the caller may have given up


def _look_up(name: str) -> Sequence[IpAddress]:
    found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    # Some systems list an address twice.
    addresses = dict.fromkeys(read_address(str(sockaddr[0])) for *_, sockaddr in found)
    return tuple(addresses)[:MOST_ADDRESSES]


KEEP_SECONDS = 30.0
KEEP_FAILURE_SECONDS = 2.0
MOST_NAMES = 2_048


class _CachedLookup(msgspec.Struct, frozen=True):
    expires: float
    addresses: Sequence[IpAddress]
    failure: str | None = None


class _Lookup:
    """A running lookup, and how many callers wait for it."""

    __slots__ = ("task", "waiting")

    def __init__(self, task: asyncio.Task[_CachedLookup]) -> None:
        self.task = task
        self.waiting = 0


class CachingResolver:
    """A resolver that remembers the answers of another one."""

    def __init__(
        self, source: HostResolver, keep_seconds: float = KEEP_SECONDS, most_names: int = MOST_NAMES
    ) -> None:
        self._source = source
        self._keep_seconds = keep_seconds
        self._most_names = most_names
        self._entries: OrderedDict[str, _CachedLookup] = OrderedDict()
        self._lookups: dict[str, _Lookup] = {}
        self._tasks: set[asyncio.Task[_CachedLookup]] = set()

    async def resolve(self, name: str) -> Sequence[IpAddress]:
        entry = self._entries.get(name)
        if entry is None or entry.expires <= asyncio.get_running_loop().time():
            entry = await self._answer(name)
        if entry.failure is not None:
            raise UnresolvedError(entry.failure)
        return entry.addresses

    async def close(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._source.close()

    async def _answer(self, name: str) -> _CachedLookup:
        """Wait for the running lookup or start one. It is cancelled with its last caller."""
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

    async def _look_up(self, name: str) -> _CachedLookup:
        loop = asyncio.get_running_loop()
        try:
            addresses = await self._source.resolve(name)
        except UnresolvedError as error:
            keep = min(KEEP_FAILURE_SECONDS, self._keep_seconds)
            return _CachedLookup(loop.time() + keep, (), str(error))
        return _CachedLookup(loop.time() + self._keep_seconds, addresses)

    def _finished(self, name: str, lookup: asyncio.Task[_CachedLookup]) -> None:
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
