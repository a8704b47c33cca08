"""Which worker process gets an attempt: the one with the fewest.

*At the start* processes become ready one after another. All attempts of a large collection would go
to the first one, and stay there for as long as they last. So for `SETTLING` seconds, or until all
processes are ready, none gets more than its even share; other attempts wait, in their order.

*Alone.* A rollout that must harm no other gets a process that runs nothing else. One process always
stays for the others.
"""

import asyncio
import math
from collections import deque

from rollgym.cluster.remote_process import RemoteProcess

SETTLING = 20.0


class Dispatch:
    """The processes of a collection, and the attempts that wait for one."""

    def __init__(self, number: int) -> None:
        """`number` is that of the processes that will be added to `processes`."""
        self.processes: list[RemoteProcess] = []
        self._number = number
        self._attempts = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._woken = 0
        self._changed = asyncio.Event()
        self._settled = number == 1
        self._settling: asyncio.TimerHandle | None = None

    @property
    def ready(self) -> int:
        """The number of processes that can get attempts."""
        return sum(process.is_ready for process in self.processes)

    async def acquire(self, *, alone: bool) -> RemoteProcess:
        """A process for an attempt, which must start there at once. Release it afterwards."""
        self._attempts += 1
        if not (alone or self._waiting) and (process := self._with_room()) is not None:
            return process
        try:
            return await (self._reserve() if alone else self._queue())
        except BaseException:
            self._attempts -= 1
            self._wake()
            raise

    def release(self, process: RemoteProcess, *, alone: bool) -> None:
        """The attempt has ended."""
        self._attempts -= 1
        if alone:
            process.reserved = False
            self.change()
        elif self._waiting:
            self._wake()

    def change(self) -> None:
        """Note that a process became ready, ended, or has fewer attempts."""
        if not self._settled and self.ready:
            if self._settling is None:
                loop = asyncio.get_running_loop()
                self._settling = loop.call_later(SETTLING, self._settle)
            if self.ready == self._number:
                self._settling.cancel()
                self._settled = True
        self._changed.set()
        self._changed = asyncio.Event()
        self._wake()

    async def change_of_state(self) -> None:
        """Wait for the next change."""
        changed = self._changed
        await changed.wait()

    def close(self) -> None:
        if self._settling is not None:
            self._settling.cancel()

    def _settle(self) -> None:
        self._settled = True
        self.change()

    def _share(self) -> float:
        """The most attempts that a process gets now."""
        return math.inf if self._settled else math.ceil(self._attempts / self._number)

    async def _queue(self) -> RemoteProcess:
        while True:
            await self._wait()
            if (process := self._with_room()) is not None:
                return process

    def _with_room(self) -> RemoteProcess | None:
        best, least = None, self._share()
        for process in self.processes:
            if process.is_ready and not process.reserved:
                load = process.in_flight
                if load < least:
                    best, least = process, load
        return best

    async def _wait(self) -> None:
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(woken)
        self._wake()  # with one attempt more, the share of each process may be larger
        try:
            await woken
        finally:
            if woken.done() and not woken.cancelled():
                self._woken -= 1

    def _wake(self) -> None:
        """Wake as many waiting attempts as there is room for."""
        if not self._waiting:
            return
        share = self._share()
        free = (each for each in self.processes if each.is_ready and not each.reserved)
        room = sum(max(0, share - each.in_flight) for each in free) - self._woken
        while self._waiting and room > 0:
            woken = self._waiting.popleft()
            if not woken.done():
                woken.set_result(None)
                self._woken += 1
                room -= 1

    async def _reserve(self) -> RemoteProcess:
        """A process that runs nothing else."""
        while True:
            ready = [each for each in self.processes if each.is_ready]
            free = [each for each in ready if not each.reserved]
            if len(free) > 1 or (len(ready) == 1 and free):
                process = min(free, key=lambda each: each.in_flight)
                process.reserved = True
                try:
                    while process.in_flight and process.is_ready:
                        await self.change_of_state()
                except BaseException:
                    process.reserved = False
                    self.change()
                    raise
                if process.is_ready:
                    return process
                process.reserved = False
            await self.change_of_state()
