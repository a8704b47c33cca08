"""One run of one program, seen from outside: its streams, its clock, its end.

*Streams.* What the program writes is kept up to a bound and never interpreted here.

*Stopping.* Time is up, too much was written, or nobody waits any more: the process group is
killed, and with it everything there is. The clock starts with the program, so neither waiting for
a worker nor a slow start is charged to it.
"""

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

import msgspec

from resources_servers.code_gen.report import Ending, Report, SandboxError, conclude, describe

START_PATIENCE = 30.0
KILL_PATIENCE = 10.0
LAST_WORDS = 2.0
LAST_LENGTH = 1_000

_LAUNCHER = Path(__file__).parent / "jail" / "launcher.py"
# No site packages, no folder of ours on the search path, no byte code written.
_FLAGS = ("-s", "-S", "-P", "-B", "-X", "utf8")
# Nothing of ours is inherited. Hashes are the same in every run, so that the same program gives the
# same answer.
_ENVIRONMENT = {"PYTHONHASHSEED": "0", "LC_ALL": "C.UTF-8"}


class Bounds(msgspec.Struct, frozen=True):
    """What is enforced from outside; `cpu_seconds` is enforced inside and recognised here."""

    cpu_seconds: int
    wall_seconds: float
    output_bytes: int


class Run(msgspec.Struct, frozen=True):
    """What came of a run, and how long it took; `detail` says in words how the process ended."""

    ending: Ending
    answer: bytes
    errors: bytes
    detail: str
    seconds: float


async def execute(
    job: bytes, stdin: bytes, bounds: Bounds, *, python: str, wrapper: Sequence[str] = ()
) -> Run:
    """Start a launcher for the job and see it through. Raises SandboxError.

    When this is cancelled the program is killed.
    """
    loop = asyncio.get_running_loop()
    ours, theirs = socket.socketpair()
    with theirs:
        channel, report = await loop.create_unix_connection(Report, sock=ours)
        try:
            _, execution = await loop.subprocess_exec(
                lambda: Execution(bounds),
                *wrapper,
                python,
                *_FLAGS,
                str(_LAUNCHER),
                str(theirs.fileno()),
                pass_fds=(theirs.fileno(),),
                env=_ENVIRONMENT,
                cwd="/",
                start_new_session=True,
            )
        except BaseException as error:
            channel.abort()
            if isinstance(error, OSError):
                raise SandboxError(f"the launcher could not be started: {error}") from error
            raise
    try:
        channel.write(job)
        return await execution.see_through(report, stdin)
    finally:
        channel.abort()
        await execution.close()


class Execution(asyncio.SubprocessProtocol):
    """The process group of one launcher and its program."""

    def __init__(self, bounds: Bounds) -> None:
        self._loop = asyncio.get_running_loop()
        self._bounds = bounds
        self._streams = {1: bytearray(), 2: bytearray()}
        self._over: asyncio.Future[None] = self._loop.create_future()
        self._stopped: Ending | None = None
        self._began = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._transport: asyncio.SubprocessTransport | None = None

    async def see_through(self, report: Report, stdin: bytes) -> Run:
        """Feed the program and wait for its end. Raises SandboxError."""
        report.on_start = self._start_clock
        pipe = cast("asyncio.WriteTransport", self._process().get_pipe_transport(0))
        pipe.write(stdin)
        pipe.write_eof()
        patience = START_PATIENCE + self._bounds.wall_seconds + KILL_PATIENCE
        await asyncio.wait([self._over, report.closed], timeout=patience)
        if not self._over.done():
            raise SandboxError(
                f"the processes of group {self._process().get_pid()} could not be killed; the "
                "system must have stopped them in the middle of an operation"
            )
        answer, errors = (bytes(stream) for stream in self._streams.values())
        if not report.started:
            last_words = errors[-LAST_LENGTH:].decode("utf-8", "replace").strip()
            reason = report.fault or last_words or "it gave no reason"
            raise SandboxError(f"the launcher could not start the program: {reason}")
        end = report.end
        ending = conclude(end, self._stopped, self._bounds.cpu_seconds)
        return Run(ending, answer, errors, describe(end), self._loop.time() - self._began)

    async def close(self) -> None:
        """Leave no process behind."""
        self._kill()
        try:
            await asyncio.wait([self._over], timeout=KILL_PATIENCE)
        finally:
            self._process().close()

    # What the event loop reports

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.SubprocessTransport", transport)
        self._set_timer(START_PATIENCE, self._kill)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        kept = self._streams[fd]
        room = self._bounds.output_bytes - len(kept)
        kept += data[:room]
        if len(data) > room:
            self._stop(Ending.OUTPUT_LIMIT)

    def process_exited(self) -> None:
        """Where programs can start others, one that is left over would hold the pipes open."""
        self._kill()
        self._set_timer(LAST_WORDS, self._process().close)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer:
            self._timer.cancel()
        if not self._over.done():
            self._over.set_result(None)

    def _start_clock(self) -> None:
        self._began = self._loop.time()
        if self._process().get_returncode() is not None:
            return  # it has ended already, and this news was late
        self._set_timer(self._bounds.wall_seconds, lambda: self._stop(Ending.TIME_LIMIT))

    def _set_timer(self, seconds: float, then: Callable[[], None]) -> None:
        """There is one thing at a time to wait for: the start, the limit, the last words."""
        if self._timer:
            self._timer.cancel()
        self._timer = self._loop.call_later(seconds, then)

    def _stop(self, why: Ending) -> None:
        self._stopped = self._stopped or why
        self._kill()

    def _kill(self) -> None:
        if not self._over.done():
            # macOS refuses permission where only zombies are left.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process().get_pid(), signal.SIGKILL)

    def _process(self) -> asyncio.SubprocessTransport:
        if self._transport is None:
            raise RuntimeError("the process has not been started")
        return self._transport
