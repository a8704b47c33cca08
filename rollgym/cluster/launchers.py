"""Starting the processes of workers on this machine. `rollgym.cluster.ray_actors` does it with Ray.

A local process leads a session, so Ctrl-C reaches the driver alone and the driver can kill
everything that the worker started. What it prints goes to the driver's log.
"""

import asyncio
import contextlib
import os
import sys
from typing import Protocol

import msgspec

from rollgym.cluster.process import Ticket
from rollgym.servers.isolation.process import describe_exit
from rollgym.servers.launch.logs import relay
from rollgym.servers.launch.server_process import ChildPipes

KILL_TIMEOUT = 2.0
_COMMAND = (sys.executable, "-m", "rollgym.cluster.process")


class Launched(Protocol):
    """A worker that was started, and may still be waiting for its place."""

    @property
    def can_wait(self) -> bool:
        """Whether it may have to wait for a free place before it starts."""

    async def ended(self) -> str:
        """Wait until its process has ended; returns how, for a sentence."""

    def is_its_own_end(self, how: str) -> bool:
        """Whether the process ended itself, rather than that something killed it."""

    async def kill(self) -> None:
        """End it at once, with everything that it started. Return within a few seconds."""


class Launcher(Protocol):
    """Starts workers."""

    async def start(self, name: str, ticket: Ticket) -> Launched:
        """Start the worker of a ticket. Raises StartError."""


class LocalProcesses:
    """Starts workers as processes of this machine."""

    async def start(self, name: str, ticket: Ticket) -> Launched:
        ticket = msgspec.structs.replace(ticket, parent=os.getpid())
        written = _Written(name)
        pipes = ChildPipes(written)

        async def spawn() -> None:
            written.pid = await pipes.spawn(name, _COMMAND)
            pipes.send(msgspec.json.encode(ticket) + b"\n")

        # A separate task: a cancelled caller must not leave a process that is half started.
        spawning = asyncio.ensure_future(spawn())
        try:
            await asyncio.shield(spawning)
        except asyncio.CancelledError:
            pipes.kill()
            await asyncio.wait({spawning}, timeout=KILL_TIMEOUT)
            raise
        return _LocalProcess(pipes)


class _LocalProcess:
    can_wait = False

    def __init__(self, pipes: ChildPipes) -> None:
        self._pipes = pipes

    async def ended(self) -> str:
        await asyncio.wait({self._pipes.ended})
        return describe_exit(self._pipes.transport.get_returncode())

    def is_its_own_end(self, how: str) -> bool:
        status = self._pipes.transport.get_returncode()
        return status is not None and (status >= 0 or -status in _FATAL)

    async def kill(self) -> None:
        self._pipes.kill()
        await asyncio.wait({self._pipes.ended}, timeout=KILL_TIMEOUT)
        with contextlib.suppress(ProcessLookupError):
            self._pipes.transport.close()


_FATAL = frozenset((4, 5, 6, 7, 8, 11))
"""The signals that a process causes itself: SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV."""


class _Written:
    """Logs what a process writes to its standard error."""

    def __init__(self, name: str) -> None:
        self.pid = 0
        self._name = name

    def __call__(self, line: str) -> None:
        relay(self._name, self.pid, line)
