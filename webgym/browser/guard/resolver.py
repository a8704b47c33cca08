"""From a name to its addresses.

`Resolver` is the seam: the guard checks and uses whatever addresses it gives. `SystemResolver` asks
the operating system, in a bounded number of threads of its own: a page full of names that never
resolve cannot take the threads that others need, nor queue up work without end.
"""

import asyncio
import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from webgym.browser.guard.addresses import Address, read_address

LOOKUPS_AT_ONCE = 32
MOST_ADDRESSES = 64


class UnresolvedError(Exception):
    """The name has no address, or none was found in time."""


class Resolver(Protocol):
    """Finds the addresses of names."""

    async def resolve(self, name: str) -> Sequence[Address]:
        """All addresses of a name, in the order to try them. Raises UnresolvedError."""
        ...

    async def close(self) -> None:
        """Give back what was held. No name is asked for afterwards."""
        ...


class SystemResolver:
    """Asks the operating system, as every other program does."""

    def __init__(self, lookups_at_once: int = LOOKUPS_AT_ONCE) -> None:
        self._threads = ThreadPoolExecutor(lookups_at_once, thread_name_prefix="resolver")
        self._free = asyncio.Semaphore(lookups_at_once)

    async def resolve(self, name: str) -> Sequence[Address]:
        await self._free.acquire()
        # A caller may stop waiting, but its thread goes on: the place is free when the thread is.
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

    def _release(self, lookup: asyncio.Future[Sequence[Address]]) -> None:
        self._free.release()
        if not lookup.cancelled():
            lookup.exception()  # nobody may be waiting for it any more


def _look_up(name: str) -> Sequence[Address]:
    found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    # In a dict, since some systems give an address twice.
    addresses = dict.fromkeys(read_address(str(sockaddr[0])) for *_, sockaddr in found)
    return tuple(addresses)[:MOST_ADDRESSES]
