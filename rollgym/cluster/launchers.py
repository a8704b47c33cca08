"""Starting the processes of workers on this machine. `rollgym.cluster.ray_actors` does it with Ray.

A local process leads a session, so Ctrl-C reaches the driver alone and the driver can kill
everything that the worker started. What it prints goes to the driver's log. It imports before it
reads what it is to do, so it can be started early: while a command checks its input, for example.
"""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, Protocol, Self, cast

import msgspec

from rollgym.cluster.process import Ticket
from rollgym.plugins import start_daemon_thread
from rollgym.servers.isolation.process import describe_exit
from rollgym.servers.launch.logs import relay
from rollgym.servers.launch.records import StartError
from rollgym.servers.launch.server_process import LONGEST_LINE

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

    def __init__(self) -> None:
        self._early: list[subprocess.Popen[bytes]] = []

    @classmethod
    @contextmanager
    def early(cls, number: int) -> Iterator[Self]:
        """With processes that start now; those that no worker got end with the block."""
        processes = cls()
        try:
            with contextlib.suppress(OSError):  # the worker that lacks it says so
                for _ in range(number):
                    processes._early.append(_spawn())
            yield processes
        finally:
            processes.end_early()

    def end_early(self) -> None:
        """End the processes that no worker got."""
        while self._early:
            with self._early.pop() as process:
                process.kill()

    async def start(self, name: str, ticket: Ticket) -> Launched:
        ticket = msgspec.structs.replace(ticket, parent=os.getpid())
        try:
            process = self._early.pop() if self._early else _spawn()
        except OSError as error:
            reason = error.strerror or str(error)
            raise StartError(f"{name} did not start: no process ({reason})") from error
        with contextlib.suppress(OSError):  # it has ended, which is noticed below
            cast("BinaryIO", process.stdin).write(msgspec.json.encode(ticket) + b"\n")
        return _LocalProcess(name, process)


def _spawn() -> "subprocess.Popen[bytes]":
    return subprocess.Popen(  # noqa: S603 - its own module
        _COMMAND,
        bufsize=0,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


class _LocalProcess:
    """A process of this machine. Two threads read its standard error and wait for its end."""

    can_wait = False

    def __init__(self, name: str, process: "subprocess.Popen[bytes]") -> None:
        self._name = name
        self._process = process
        start_daemon_thread(self._relay, f"rollgym-{name}")
        _, self._ended = start_daemon_thread(self._wait, f"rollgym-{name}")

    async def ended(self) -> str:
        await asyncio.wait({self._ended})
        return describe_exit(self._process.returncode)

    def is_its_own_end(self, how: str) -> bool:
        status = self._process.returncode
        return status is not None and (status >= 0 or -status in _FATAL)

    async def kill(self) -> None:
        if not self._ended.done():
            self._kill_session()
            await asyncio.wait({self._ended}, timeout=KILL_TIMEOUT)
        cast("BinaryIO", self._process.stdin).close()

    def _kill_session(self) -> None:
        # macOS denies permission where only zombies are left.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def _wait(self) -> None:
        self._process.wait()
        self._kill_session()  # what it has started

    def _relay(self) -> None:
        with cast("BinaryIO", self._process.stderr) as written:
            while line := written.readline(LONGEST_LINE):
                relay(self._name, self._process.pid, line.decode("utf-8", "backslashreplace"))


_FATAL = frozenset((4, 5, 6, 7, 8, 11))
"""The signals that a process causes itself: SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV."""
