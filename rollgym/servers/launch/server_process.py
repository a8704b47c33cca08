"""A server in a process of its own, as the launcher sees it: started, watched, restarted, stopped.

The process runs in a separate session, so that a Ctrl-C reaches the launcher alone and the launcher
can kill everything that the server started. It holds the reading end of a pipe from the launcher,
so it ends with the launcher, however that ends. A process that dies is restarted on its port, after
a pause that grows, and for a limited number of times.

The end of a process is noticed by its exit, not by the end of its pipes: children of the server may
hold them open.
"""

import asyncio
import contextlib
import sys
from asyncio.subprocess import PIPE
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import msgspec

from rollgym.engine import Backoff
from rollgym.servers.isolation.process import SessionPipes, describe_exit
from rollgym.servers.launch.logs import relay
from rollgym.servers.launch.records import (
    TAIL_LINES,
    ServerLostError,
    ServerStatus,
    StartError,
    StartRequest,
    StartResult,
    with_tail,
)
from rollgym.store import RefusedError

_PAUSES = Backoff(0.25, factor=4.0, maximum=8.0, jitter=0.0)
END_TIMEOUT = 4.0
KILL_TIMEOUT = 1.0
TAIL_TIMEOUT = 0.5
LONGEST_LINE = 1 << 16
CHILD_COMMAND = (sys.executable, "-m", "rollgym.servers.launch.child")
_STDOUT, _STDERR = 1, 2

Announce = Callable[[str], None]


class Child(Protocol):
    """One process of a server, on this machine or elsewhere; its methods are those below."""

    @property
    def pid(self) -> int | None: ...

    @property
    def tail(self) -> list[str]: ...

    async def spawn(self) -> None: ...

    async def ready(self) -> StartResult: ...

    async def exited(self) -> str: ...

    async def end(self) -> None: ...

    def kill(self) -> None: ...

    def send(self, line: bytes) -> None: ...


MakeChild = Callable[[StartRequest], Child]


class ServerProcess:
    """One process of a server, and the processes that replace it."""

    def __init__(
        self,
        request: StartRequest,
        announce: Announce,
        give_up: Callable[[ServerLostError], None],
        make_child: MakeChild | None = None,
    ) -> None:
        """`give_up` is called once, when all restarts of the instance are used up.

        `make_child` makes its processes elsewhere than on this machine.
        """
        self.status = ServerStatus.STARTING
        self.restarts = 0
        self.result: StartResult | None = None
        """The first line of its latest process that was ready."""
        self._request = request
        self._name = request.instance.name
        self._allowed = request.instance.restarts
        self._announce = announce
        self._give_up = give_up
        self._make_child: MakeChild = make_child or ChildProcess
        self._child: Child | None = None
        self._watching: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        return self._child.pid if self._child else None

    async def start(self, within: float) -> None:
        """Return when the server is ready. Raises StartError or ConfigError."""
        try:
            child = await self._launch(within)
        except RefusedError:
            self.status = ServerStatus.FAILED
            raise
        self._watching = asyncio.create_task(self._watch(child, within))

    async def stop(self) -> None:
        """Return within a few seconds. May be called in any state."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait({self._watching})
        if self._child is not None:
            await self._child.end()
        self.status = ServerStatus.STOPPED

    def kill(self) -> None:
        """Kill the process and everything in its session, now."""
        if self._child is not None:
            self._child.kill()

    def send(self, line: bytes) -> None:
        """Write a line to the standard input of a process that is ready."""
        if self._child is not None and self.status is ServerStatus.READY:
            self._child.send(line)

    async def _launch(self, within: float) -> Child:
        child = self._child = self._make_child(self._request)
        try:
            async with asyncio.timeout(within):
                await child.spawn()
                self.result = await child.ready()
        except TimeoutError as error:
            await child.end()
            message = f"{self._name} was not ready within {within:g} s"
            raise StartError(with_tail(message, child.tail)) from error
        except BaseException:
            await child.end()
            raise
        self.status = ServerStatus.READY
        return child

    async def _watch(self, child: Child, within: float) -> None:
        current: Child | None = child
        while current is not None:
            reason = await current.exited()
            await current.end()
            event = f"{self._name} (process {current.pid}) {reason}"
            current = await self._replace(with_tail(event, current.tail), within)

    async def _replace(self, event: str, within: float) -> Child | None:
        while self.restarts < self._allowed:
            self.restarts += 1
            pause = _PAUSES.delay(self.restarts, 0)
            self.status = ServerStatus.RESTARTING
            count = f"restart {self.restarts} of {self._allowed}"
            self._announce(f"{event}\n{self._name} is restarted in {pause:g} s ({count})")
            await asyncio.sleep(pause)
            try:
                child = await self._launch(within)
            except RefusedError as error:
                event = str(error)
                continue
            self._announce(f"{self._name} is ready again")
            return child
        self.status = ServerStatus.FAILED
        message = f"{event}\n{self._name} is not restarted again after {self._allowed} restarts"
        self._give_up(ServerLostError(message))
        return None


class ChildProcess:
    """One process. Its owner calls `spawn`, and `end` whatever happens."""

    def __init__(self, request: StartRequest) -> None:
        self.pid: int | None = None
        self._request = request
        self._name = request.instance.name
        self._spawning: asyncio.Future[None] | None = None
        self._pipes = ChildPipes(self._remember)
        self._tail: deque[str] = deque(maxlen=TAIL_LINES)

    @property
    def tail(self) -> list[str]:
        """The last lines it wrote."""
        return list(self._tail)

    async def spawn(self) -> None:
        """Raises StartError where the system cannot make a process."""
        # A separate task: a cancelled caller must not leave a process that is half started.
        self._spawning = asyncio.ensure_future(self._spawn())
        await asyncio.shield(self._spawning)

    async def ready(self) -> StartResult:
        """Its result when it is ready. Raises StartError when it failed to start, or ended."""
        line = self._pipes.first_line
        either: set[asyncio.Future[Any]] = {line, self._pipes.ended}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not line.done():
            reason = await self.exited()
            if not line.done():
                message = f"{self._name} did not start: its process {reason}"
                raise StartError(with_tail(message, self.tail))
        result = msgspec.json.decode(line.result(), type=StartResult)
        if result.error is not None:
            raise StartError(result.error)
        return result

    async def exited(self) -> str:
        """Wait for its end; returns how it ended."""
        await asyncio.wait({self._pipes.ended})
        await asyncio.wait({self._pipes.closed}, timeout=TAIL_TIMEOUT)
        return describe_exit(self._pipes.transport.get_returncode())

    async def end(self) -> None:
        """Terminate it, and kill it where it does not end in time."""
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
        await asyncio.wait({self._pipes.closed}, timeout=TAIL_TIMEOUT)
        self._pipes.transport.close()

    def kill(self) -> None:
        """Kill it and everything in its session, now."""
        self._pipes.kill()

    def send(self, line: bytes) -> None:
        """Write a line to its standard input."""
        self._pipes.send(line)

    async def _spawn(self) -> None:
        self.pid = await self._pipes.spawn(self._name, CHILD_COMMAND)
        self._pipes.send(self._request.to_line())

    def _remember(self, line: str) -> None:
        self._tail.extend(relay(self._name, self.pid or 0, line).splitlines())


class ChildPipes(SessionPipes):
    """The pipes of a process: its first line of output, its standard error, and its end."""

    def __init__(self, write_line: Callable[[str], None]) -> None:
        """`write_line` gets each line of its standard error; one too long comes in pieces."""
        super().__init__()
        self.first_line: asyncio.Future[bytes] = self._loop.create_future()
        self.closed: asyncio.Future[None] = self._loop.create_future()
        self._write_line = write_line
        self._received = {_STDOUT: b"", _STDERR: b""}

    async def spawn(self, name: str, command: Sequence[str]) -> int:
        """Start the process in a session of its own; returns its id. Raises StartError."""
        try:
            transport, _ = await self._loop.subprocess_exec(
                lambda: self,
                *command,
                stdin=PIPE,
                stdout=PIPE,
                stderr=PIPE,
                start_new_session=True,
            )
        except OSError as error:
            reason = error.strerror or str(error)
            raise StartError(f"{name} did not start: no process ({reason})") from error
        return transport.get_pid() or 0

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        *lines, rest = (self._received[fd] + data).split(b"\n")
        if len(rest) > LONGEST_LINE:
            lines, rest = [*lines, rest], b""
        self._received[fd] = rest
        for line in lines:
            self._add_line(fd, line)

    def process_exited(self) -> None:
        self.kill()
        self.ended.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._received[_STDERR]:
            self._add_line(_STDERR, self._received[_STDERR])
        self.closed.set_result(None)

    def _add_line(self, fd: int, line: bytes) -> None:
        if fd == _STDERR:
            self._write_line(line.decode("utf-8", "backslashreplace"))
        elif not self.first_line.done():
            self.first_line.set_result(line)
