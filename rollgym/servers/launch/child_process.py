"""The process of a server, seen from the launcher: spawned, ready, gone.

It runs in a session of its own, so that a Ctrl-C reaches the launcher alone and the launcher can
end everything that the server started. It holds the reading end of a pipe whose writing end is the
launcher's: a launcher that dies, however it dies, ends it.
"""

import asyncio
import contextlib
import signal
import sys
from asyncio.subprocess import PIPE
from collections import deque
from typing import Any

import msgspec

from rollgym.servers.launch.child_pipes import ChildPipes
from rollgym.servers.launch.errors import TAIL_LINES, StartError, with_tail
from rollgym.servers.launch.logs import relay
from rollgym.servers.launch.messages import Order, Report, line_of

END_TIMEOUT = 4.0
KILL_TIMEOUT = 1.0
TAIL_TIMEOUT = 0.5
_COMMAND = (sys.executable, "-m", "rollgym.servers.launch.child")


class ChildProcess:
    """One process. Whoever makes one calls `spawn`, and `end` whatever becomes of it."""

    def __init__(self, order: Order) -> None:
        self.pid: int | None = None
        self._order = order
        self._spawning: asyncio.Future[None] | None = None
        self._pipes = ChildPipes(self._remember)
        self._tail: deque[str] = deque(maxlen=TAIL_LINES)

    @property
    def tail(self) -> list[str]:
        """The last lines it wrote."""
        return list(self._tail)

    async def spawn(self) -> None:
        """Raises StartError where the system refuses to make a process."""
        # A task of its own: a caller that is cancelled must not leave half a process behind.
        self._spawning = asyncio.ensure_future(self._spawn())
        await asyncio.shield(self._spawning)

    async def ready(self) -> Report:
        """What it reports when it is ready. Raises StartError when it is not, or ends."""
        report = self._pipes.report
        either: set[asyncio.Future[Any]] = {report, self._pipes.ended}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not report.done():
            reason = await self.exited()
            if not report.done():
                message = f"{self._order.name} did not start: its process {reason}"
                raise StartError(with_tail(message, self.tail))
        told = msgspec.json.decode(report.result(), type=Report)
        if told.trouble is not None:
            raise StartError(told.trouble)
        return told

    async def exited(self) -> str:
        """Why it ended, once it has."""
        await asyncio.wait({self._pipes.ended})
        await asyncio.wait({self._pipes.silent}, timeout=TAIL_TIMEOUT)
        return exit_reason(self._pipes.transport.get_returncode())

    async def end(self) -> None:
        """Have it end in its own time, and then without asking."""
        if self._spawning is not None:
            await asyncio.wait({self._spawning}, timeout=KILL_TIMEOUT)
        if self.pid is None:
            return
        if not self._pipes.ended.done():
            with contextlib.suppress(ProcessLookupError):
                self._pipes.transport.terminate()
            await asyncio.wait({self._pipes.ended}, timeout=END_TIMEOUT)
        self._pipes.kill()
        await asyncio.wait({self._pipes.ended}, timeout=KILL_TIMEOUT)
        await asyncio.wait({self._pipes.silent}, timeout=TAIL_TIMEOUT)
        self._pipes.transport.close()

    def kill(self) -> None:
        """End it and everything in its session, now."""
        self._pipes.kill()

    async def _spawn(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            transport, _ = await loop.subprocess_exec(
                lambda: self._pipes,
                *_COMMAND,
                stdin=PIPE,
                stdout=PIPE,
                stderr=PIPE,
                start_new_session=True,
            )
        except OSError as error:
            reason = error.strerror or str(error)
            raise StartError(f"{self._order.name} did not start: no process ({reason})") from error
        self.pid = transport.get_pid()
        self._pipes.send(line_of(self._order))

    def _remember(self, line: str) -> None:
        self._tail.extend(relay(self._order.name, self.pid or 0, line).splitlines())


def exit_reason(status: int | None) -> str:
    """In words: what a process's exit status says."""
    if status is None or status >= 0:
        return f"ended with status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    cause = " (by somebody, or for lack of memory)" if -status == signal.SIGKILL else ""
    return f"was killed by {name}{cause}"
