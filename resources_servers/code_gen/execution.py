"""One run of one program, controlled from outside: its streams, its clock, its end.

*Streams.* What the program writes is kept up to a limit and never interpreted here.

*Stopping.* When the time is up, when too much was written or when the caller is cancelled, the
process group is killed, and with it every process of the run.

*Time.* How busy the machine is must not decide about a reward. The kernel limits the processor time
of the program. A program that waits, such as one that sleeps, uses none; its limit is wall time,
less the time in which it was ready to run and waited for a processor (see `activity`), and
it is stopped only while it waits. The clock starts with the program, so neither the wait for a slot
nor a slow start counts. A program that the machine does not let finish within many times this limit
is not judged.

*Reports.* The launcher reports `started`, `ended` or `error` over a socket that the program cannot
reach. The program caused everything that happens after `started`, with one exception: a program
cannot end itself with SIGKILL, so the machine killed one that ended this way within its limits.
That, a machine that is too busy, and everything before `started`, is a `SandboxError` and not a
verdict on the program.
"""

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import cast

import msgspec

from resources_servers.code_gen.activity import program_activity
from resources_servers.code_gen.isolation.program import OUT_OF_MEMORY
from rollgym.records import VerifierError

# The kernel enforces the limit on processor time with samples at its clock ticks, which can be far
# ahead of the exact time that it reports at the end (0.78 s at a limit of 1 s was seen).
CPU_LIMIT_SHARE = 0.5


class SandboxError(VerifierError):
    """The machine could not run the program; the program did not cause it."""


class RunEnding(StrEnum):
    """How a run ended."""

    FINISHED = "finished"
    FAILED = "failed"
    TIME_LIMIT = "time_limit"
    MEMORY_LIMIT = "memory_limit"
    OUTPUT_LIMIT = "output_limit"


class ProcessEnd(msgspec.Struct, frozen=True):
    """The wait status of the program's process, and the processor time it used."""

    status: int
    cpu_seconds: float

    @property
    def killed(self) -> bool:
        return self.status == -signal.SIGKILL


class LauncherReport(asyncio.Protocol):
    """The server's end of the launcher's socket."""

    def __init__(self) -> None:
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.on_start: Callable[[], None] = lambda: None
        self.started = False
        self._received = bytearray()

    def data_received(self, data: bytes) -> None:
        self._received += data
        if not self.started and self._received.startswith(b"started\n"):
            self.started = True
            self.on_start()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.closed.done():
            self.closed.set_result(None)

    @property
    def error(self) -> str:
        """Why the program was not started; "" if the launcher ended before it could report it."""
        first = self._received.decode("utf-8", "replace").partition("\n")[0]
        return first.removeprefix("error ")

    @property
    def end(self) -> ProcessEnd | None:
        """How the program ended; None if the launcher ended before it could report it."""
        words = self._received.partition(b"ended ")[2].split()
        return (
            ProcessEnd(os.waitstatus_to_exitcode(int(words[0])), float(words[1])) if words else None
        )


def conclude(end: ProcessEnd | None, stopped: RunEnding | None, cpu_limit: int) -> RunEnding:
    """How the run ended, given why it was stopped from here, if it was. Raises SandboxError."""
    if stopped is RunEnding.OUTPUT_LIMIT:
        return stopped
    if stopped is not None and (end is None or end.killed):
        return stopped
    if end is None:
        raise SandboxError("another process killed the launcher while its program ran")
    if end.killed:
        if end.cpu_seconds >= CPU_LIMIT_SHARE * cpu_limit:
            return RunEnding.TIME_LIMIT
        raise SandboxError(
            f"the system killed the program (SIGKILL) after {end.cpu_seconds:.1f} s of processor "
            "time, most often because memory is short; use fewer workers"
        )
    match end.status:
        case 0:
            return RunEnding.FINISHED
        case status if status == OUT_OF_MEMORY:
            return RunEnding.MEMORY_LIMIT
        case _:
            return RunEnding.FAILED


def describe(end: ProcessEnd | None) -> str:
    """The end of a program in words; "" for a normal end."""
    if end is None or end.status == 0:
        return ""
    if end.status > 0:
        return f"exit status {end.status}"
    try:
        return f"killed by {signal.Signals(-end.status).name}"
    except ValueError:
        return f"killed by signal {-end.status}"


START_TIMEOUT = 30.0
BUSY_FACTOR = 20.0
"""A run may last this many times its limit of wall time while it waits for a processor."""
BETWEEN_CHECKS = 0.1
KILL_TIMEOUT = 10.0
OUTPUT_GRACE = 2.0
LONGEST_REASON = 1_000

_LAUNCHER = Path(__file__).parent / "isolation" / "launcher.py"
# No site packages, no folder of the clone on the search path, no bytecode written.
_FLAGS = ("-s", "-S", "-P", "-B", "-X", "utf8")
# The program inherits no variables. Hashes are the same in every run, so that the same program
# gives the same answer.
_ENVIRONMENT = {"PYTHONHASHSEED": "0", "LC_ALL": "C.UTF-8"}


class ProgramLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of one run.

    `wall_seconds` stops programs that wait. The time in which a program waits for a processor does
    not count, so neither limit depends on how busy the machine is.
    """

    cpu_seconds: int = 10
    wall_seconds: float = 30.0
    memory_bytes: int = 512 << 20
    scratch_bytes: int = 16 << 20
    output_bytes: int = 1 << 20


class ProgramRun(msgspec.Struct, frozen=True):
    """The result of a run and its processor time; `detail` says in words how the process ended."""

    ending: RunEnding
    answer: bytes
    errors: bytes
    detail: str
    cpu_seconds: float


async def execute(
    job: bytes, stdin: bytes, limits: ProgramLimits, *, python: str, wrapper: Sequence[str] = ()
) -> ProgramRun:
    """Start a launcher for the job and wait for the end of the program. Raises SandboxError.

    Cancelling this kills the program.
    """
    loop = asyncio.get_running_loop()
    ours, theirs = socket.socketpair()
    with theirs:
        channel, report = await loop.create_unix_connection(LauncherReport, sock=ours)
        try:
            _, execution = await loop.subprocess_exec(
                lambda: Execution(limits),
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
        return await execution.finish(report, stdin)
    finally:
        channel.abort()
        await execution.close()


class Execution(asyncio.SubprocessProtocol):
    """The process group of one launcher and its program."""

    def __init__(self, limits: ProgramLimits) -> None:
        self._loop = asyncio.get_running_loop()
        self._limits = limits
        self._streams = {1: bytearray(), 2: bytearray()}
        self._over: asyncio.Future[None] = self._loop.create_future()
        self._stopped: RunEnding | None = None
        self._began = 0.0
        self._server_delay = 0.0
        self._unfinished = ""
        self._timer: asyncio.TimerHandle | None = None
        self._transport: asyncio.SubprocessTransport | None = None

    async def finish(self, report: LauncherReport, stdin: bytes) -> ProgramRun:
        """Feed the program and wait for its end. Raises SandboxError."""
        report.on_start = self._start_clock
        pipe = cast("asyncio.WriteTransport", self._process().get_pipe_transport(0))
        pipe.write(stdin)
        pipe.write_eof()
        timeout = START_TIMEOUT + (1 + BUSY_FACTOR) * self._limits.wall_seconds + KILL_TIMEOUT
        await asyncio.wait([self._over, report.closed], timeout=timeout)
        if not self._over.done():
            raise SandboxError(
                f"the processes of group {self._process().get_pid()} could not be killed: the "
                "system holds them in the middle of an operation"
            )
        answer, errors = (bytes(stream) for stream in self._streams.values())
        if not report.started:
            written = errors[-LONGEST_REASON:].decode("utf-8", "replace").strip()
            reason = report.error or written or "it gave no reason"
            raise SandboxError(f"the launcher could not start the program: {reason}")
        if self._unfinished:
            raise SandboxError(self._unfinished)
        end = report.end
        ending = conclude(end, self._stopped, self._limits.cpu_seconds)
        return ProgramRun(ending, answer, errors, describe(end), end.cpu_seconds if end else 0.0)

    async def close(self) -> None:
        """Kill every process that is left."""
        self._kill()
        try:
            await asyncio.wait([self._over], timeout=KILL_TIMEOUT)
        finally:
            self._process().close()

    # Callbacks of the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.SubprocessTransport", transport)
        self._set_timer(START_TIMEOUT, self._kill)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        kept = self._streams[fd]
        free = self._limits.output_bytes - len(kept)
        kept += data[:free]
        if len(data) > free:
            self._stop(RunEnding.OUTPUT_LIMIT)

    def process_exited(self) -> None:
        """Where programs can start processes, one that still runs would hold the pipes open."""
        self._kill()
        self._set_timer(OUTPUT_GRACE, self._process().close)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer:
            self._timer.cancel()
        if not self._over.done():
            self._over.set_result(None)

    def _start_clock(self) -> None:
        self._began = self._loop.time()
        if self._process().get_returncode() is not None:
            return  # the program has ended before this report arrived
        self._check_time_in(self._limits.wall_seconds)

    def _check_time_in(self, seconds: float) -> None:
        due = self._loop.time() + seconds
        self._set_timer(seconds, lambda: self._check_time(due))

    def _check_time(self, due: float) -> None:
        """Stop the program if it has waited too long, or if the machine is too busy to run it."""
        now, limit = self._loop.time(), self._limits.wall_seconds
        # The program may have waited for this process, which was busy, to read what it writes.
        self._server_delay += now - due
        elapsed, activity = now - self._began, program_activity(self._process().get_pid())
        used = elapsed - self._server_delay - (activity.delay if activity else 0.0)
        if activity and used >= limit and not activity.active:
            self._stop(RunEnding.TIME_LIMIT)
        elif elapsed >= BUSY_FACTOR * limit or (activity is None and sys.platform != "linux"):
            self._unfinished = (
                f"the program has not ended within {elapsed:.0f} s, and the machine was too busy "
                f"to tell whether it would within {limit:g} s; use fewer workers or raise "
                "wall_seconds"
            )
            self._kill()
        else:
            self._check_time_in(max(limit - used, BETWEEN_CHECKS))

    def _set_timer(self, seconds: float, then: Callable[[], None]) -> None:
        """One event is waited for at a time: the start, the limit, or the end of the output."""
        if self._timer:
            self._timer.cancel()
        self._timer = self._loop.call_later(seconds, then)

    def _stop(self, ending: RunEnding) -> None:
        self._stopped = self._stopped or ending
        self._kill()

    def _kill(self) -> None:
        if not self._over.done():
            # macOS denies permission when only zombies are left.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process().get_pid(), signal.SIGKILL)

    def _process(self) -> asyncio.SubprocessTransport:
        if self._transport is None:
            raise RuntimeError("the process is not started")
        return self._transport
