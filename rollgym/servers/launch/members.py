"""The servers of a run as the launcher holds them: objects of this process, and processes.

Both kinds start and stop the same way. A process is also watched: when it dies it is started again
on its port, after a pause that grows, and only so often.
"""

import asyncio
import os
from collections.abc import Callable
from typing import Protocol

from rollgym.servers.launch.child_process import ChildProcess
from rollgym.servers.launch.errors import ServerLostError, StartError, with_tail
from rollgym.servers.launch.instance_record import Status
from rollgym.servers.launch.local_server import LocalServer
from rollgym.servers.launch.messages import Order, Report
from rollgym.store import RefusedError

FIRST_PAUSE = 0.25
PAUSE_GROWTH = 4.0
LONGEST_PAUSE = 8.0

Announce = Callable[[str], None]


class Member(Protocol):
    """One server object or one process."""

    status: Status
    restarts: int
    report: Report | None
    """What is known about its settings; None before a process is ready for the first time."""

    @property
    def pid(self) -> int | None: ...

    async def start(self, within: float) -> None:
        """Returns when it is ready. Raises StartError or ConfigError."""

    async def stop(self) -> None:
        """Returns within a few seconds. May be called in any state."""

    def kill(self) -> None:
        """End what is outside of this process, now."""


class LocalMember:
    """A server object of this process."""

    def __init__(self, name: str, server: LocalServer, report: Report) -> None:
        self.status = Status.STARTING
        self.restarts = 0
        self.report: Report | None = report
        self._name = name
        self._server = server

    @property
    def pid(self) -> int:
        return os.getpid()

    async def start(self, within: float) -> None:
        try:
            async with asyncio.timeout(within):
                await self._server.start()
        except TimeoutError as error:
            self.status = Status.FAILED
            raise StartError(f"{self._name} was not ready within {within:g} s") from error
        except StartError:
            self.status = Status.FAILED
            raise
        self.status = Status.READY

    async def stop(self) -> None:
        await self._server.stop()
        self.status = Status.STOPPED

    def kill(self) -> None:
        """There is nothing outside."""


class ProcessMember:
    """A process of a server, and its successors."""

    def __init__(
        self,
        order: Order,
        restarts: int,
        announce: Announce,
        give_up: Callable[[ServerLostError], None],
    ) -> None:
        """`give_up` is called once, when it has died more often than `restarts`."""
        self.status = Status.STARTING
        self.restarts = 0
        self.report: Report | None = None
        self._order = order
        self._allowed = restarts
        self._announce = announce
        self._give_up = give_up
        self._child: ChildProcess | None = None
        self._watching: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        return self._child.pid if self._child else None

    async def start(self, within: float) -> None:
        try:
            child = await self._launch(within)
        except RefusedError:
            self.status = Status.FAILED
            raise
        self._watching = asyncio.create_task(self._watch(child, within))

    async def stop(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait({self._watching})
        if self._child is not None:
            await self._child.end()
        self.status = Status.STOPPED

    def kill(self) -> None:
        if self._child is not None:
            self._child.kill()

    async def _launch(self, within: float) -> ChildProcess:
        child = self._child = ChildProcess(self._order)
        try:
            async with asyncio.timeout(within):
                await child.spawn()
                self.report = await child.ready()
        except TimeoutError as error:
            await child.end()
            message = f"{self._order.name} was not ready within {within:g} s"
            raise StartError(with_tail(message, child.tail)) from error
        except BaseException:
            await child.end()
            raise
        self.status = Status.READY
        return child

    async def _watch(self, child: ChildProcess, within: float) -> None:
        current: ChildProcess | None = child
        while current is not None:
            reason = await current.exited()
            await current.end()
            trouble = f"{self._order.name} (process {current.pid}) {reason}"
            current = await self._replace(with_tail(trouble, current.tail), within)

    async def _replace(self, trouble: str, within: float) -> ChildProcess | None:
        while self.restarts < self._allowed:
            pause = min(FIRST_PAUSE * PAUSE_GROWTH**self.restarts, LONGEST_PAUSE)
            self.restarts += 1
            self.status = Status.RESTARTING
            count = f"{self.restarts} of {self._allowed} times"
            self._announce(f"{trouble}\n{self._order.name} is restarted in {pause:g} s ({count})")
            await asyncio.sleep(pause)
            try:
                child = await self._launch(within)
            except RefusedError as error:
                trouble = str(error)
                continue
            self._announce(f"{self._order.name} is ready again")
            return child
        self.status = Status.FAILED
        message = f"{trouble}\n{self._order.name} is given up after {self._allowed} restarts"
        self._give_up(ServerLostError(message))
        return None
