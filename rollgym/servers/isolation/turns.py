"""Whose turn it is: a few at the same time, first come, first served, with a bounded queue."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from rollgym.servers.isolation.errors import NoFreeWorkerError


class Turns:
    """At most `count` turns at the same time for calls of a function."""

    def __init__(self, function: str, count: int, queue_limit: int) -> None:
        self._function = function
        self._free = asyncio.Semaphore(count)
        self._queue_limit = queue_limit
        self._waiting = 0

    @asynccontextmanager
    async def take(self, patience: float) -> AsyncIterator[None]:
        """Wait for a turn and hold it. Raises NoFreeWorkerError."""
        if self._free.locked() and self._waiting >= self._queue_limit:
            raise NoFreeWorkerError(
                f"{self._waiting} calls of {self._function} are waiting for a worker already; "
                "use more workers or fewer rollouts at the same time"
            )
        await self._wait(patience)
        try:
            yield
        finally:
            self._free.release()

    async def _wait(self, patience: float) -> None:
        self._waiting += 1
        try:
            async with asyncio.timeout(patience):
                await self._free.acquire()
        except TimeoutError:
            raise NoFreeWorkerError(
                f"no worker for {self._function} became free within {patience:g} s; "
                "use more workers or fewer rollouts at the same time"
            ) from None
        finally:
            self._waiting -= 1
