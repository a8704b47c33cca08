"""One isolated worker process, which runs one call at a time, and the errors of such calls.

A worker that did not return a result, for whatever reason, is killed and replaced.

*Errors* say where the cause is. In the function: `CallFailedError` (it raised) and
`CpuTimeExceededError` (it used too much processor time). Anywhere: `CallTimeoutError` (no result in
time; an overloaded machine looks the same) and `WorkerDiedError`. In rollgym or the machine:
`WorkerStartError`, `NoFreeWorkerError`. In the caller: `ArgumentsError`, `WorkersClosedError`. They
are plain exceptions: a server attributes them to the boundary that it serves.

*Pipes.* No task reads them: the event loop calls `ProcessPipes`, and at most one future waits for
the next message. The process has ended when it has exited and its pipes are empty: only then it is
certain that no result is on its way and that its last output is complete. A grandchild that
outlives the worker would hold the pipes open, so the whole process group is killed as soon as the
worker exits; pipes that are still open after `OUTPUT_TIMEOUT` are closed.
"""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import msgspec

from rollgym.servers.isolation import child
from rollgym.servers.isolation.child import (
    HEADER_SIZE,
    MESSAGE_LIMIT,
    CallResult,
    Raised,
    WorkerCall,
    WorkerSetup,
)

STDERR_TAIL = 2_000
OUTPUT_TIMEOUT = 2.0
_PROGRAM = Path(child.__file__).resolve()
_RESULTS: msgspec.msgpack.Decoder[CallResult] = msgspec.msgpack.Decoder(CallResult)


class IsolationError(Exception):
    """Base of all errors of a call in an isolated worker."""


class ArgumentsError(IsolationError):
    """The arguments cannot be sent to another process."""


class CallFailedError(IsolationError):
    """The function raised; its worker keeps running."""

    def __init__(self, function: str, error_type: str, error_message: str, traceback: str) -> None:
        super().__init__(f"{function} raised {error_type}: {error_message}\n{traceback}".rstrip())
        self.error_type = error_type
        self.error_message = error_message
        self.traceback = traceback


class CallTimeoutError(IsolationError):
    """The call returned no result in time, and its worker was killed."""


class CpuTimeExceededError(CallTimeoutError):
    """The call used up its processor time, and its worker was killed.

    Unlike the time on the clock, processor time does not depend on how busy the machine is.
    """


class WorkerDiedError(IsolationError):
    """The worker process ended during the call."""


class WorkerStartError(IsolationError):
    """A worker process could not be started, or could not import the function."""


class NoFreeWorkerError(IsolationError):
    """The queue of waiting calls is full, or no worker became free in time."""


class WorkersClosedError(IsolationError):
    """The workers were closed before the call returned."""


class SessionPipes(asyncio.SubprocessProtocol):
    """The pipes of a process that leads a session, which is killed as a whole.

    `ended` is done when the process has ended.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[None] = self._loop.create_future()
        self._transport: asyncio.SubprocessTransport | None = None
        self._killed = False

    @property
    def transport(self) -> asyncio.SubprocessTransport:
        if self._transport is None:
            raise RuntimeError("the process has not been started")
        return self._transport

    def send(self, data: bytes) -> None:
        cast("asyncio.WriteTransport", self.transport.get_pipe_transport(0)).write(data)

    def kill(self) -> None:
        """Kill the session: now, or as soon as it exists.

        A process that has ended is left alone: its number may belong to another process.
        """
        self._killed = True
        if self._transport is not None and not self.ended.done():
            # macOS denies permission where only zombies are left.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._transport.get_pid(), signal.SIGKILL)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.SubprocessTransport", transport)
        if self._killed:
            self.kill()


class ProcessPipes(SessionPipes):
    """Messages to and from one process, one call at a time."""

    def __init__(self) -> None:
        super().__init__()
        self._received = bytearray()
        self._stderr = bytearray()
        self._message: asyncio.Future[bytes] | None = None
        self._closing: asyncio.TimerHandle | None = None

    @property
    def process_id(self) -> int:
        return self.transport.get_pid()

    @property
    def exit_status(self) -> int | None:
        """None while it runs; negative: the signal that ended it."""
        return self.transport.get_returncode()

    @property
    def last_output(self) -> str:
        """The end of what the process printed."""
        return self._stderr.decode("utf-8", "replace").strip()

    async def receive(self, seconds: float) -> bytes | None:
        """The next message; None if the process ends first.

        Raises TimeoutError, but not for a message that arrived while the event loop was blocked.
        Raises IsolationError for bytes that are not a message.
        """
        message: asyncio.Future[bytes] = self._loop.create_future()
        self._message = message
        self._deliver()
        try:
            await asyncio.wait(
                (message, self.ended), timeout=seconds, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            self._message = None
        if message.done():
            return message.result()
        message.cancel()
        if self.ended.done():
            return None
        raise TimeoutError

    def set_ended(self) -> None:
        """Note that the process has ended, or that it could not be started."""
        if not self.ended.done():
            self.ended.set_result(None)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 2:
            self._stderr += data
            del self._stderr[:-STDERR_TAIL]
        else:
            self._received += data
            self._deliver()

    def process_exited(self) -> None:
        self.kill()
        self._closing = self._loop.call_later(OUTPUT_TIMEOUT, self.transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._closing is not None:
            self._closing.cancel()
        self.set_ended()
        self.transport.close()

    def _deliver(self) -> None:
        if self._message is None or self._message.done() or len(self._received) < HEADER_SIZE:
            return
        size = int.from_bytes(self._received[:HEADER_SIZE], "big")
        if size > MESSAGE_LIMIT:
            self._message.set_exception(
                IsolationError(f"worker {self.process_id} sent bytes that are not a message")
            )
        elif len(self._received) >= HEADER_SIZE + size:
            self._message.set_result(bytes(self._received[HEADER_SIZE : HEADER_SIZE + size]))
            del self._received[: HEADER_SIZE + size]


class WorkerSettings(msgspec.Struct, frozen=True):
    """The settings that all workers of a pool share."""

    function: str
    start_timeout: float
    memory_bytes: int | None
    environment: Mapping[str, str]


class IsolatedProcess:
    """A process that is starting, running or ending. Its owner kills it and waits for `ended`."""

    def __init__(self, settings: WorkerSettings) -> None:
        self.calls = 0
        self._settings = settings
        self._function = settings.function
        self._pipes = ProcessPipes()
        # A separate task: a cancelled caller must not leave a process that is half started.
        self._spawning = asyncio.ensure_future(self._spawn())

    @property
    def alive(self) -> bool:
        return self._pipes.exit_status is None and not self.ended.done()

    @property
    def process_id(self) -> int:
        return self._pipes.process_id

    @property
    def ended(self) -> asyncio.Future[None]:
        """Done when the process and its process group have ended."""
        return self._pipes.ended

    @property
    def exit_reason(self) -> str:
        """How the process ended, with the last lines of its output."""
        return describe_exit(self._pipes.exit_status) + self._last_output()

    @property
    def last_output(self) -> str:
        """The end of what the process printed; complete once it has ended."""
        return self._pipes.last_output

    def kill(self) -> None:
        self._pipes.kill()

    async def ready(self) -> None:
        """Wait until the function is imported. Raises WorkerStartError."""
        seconds = self._settings.start_timeout
        try:
            async with asyncio.timeout(seconds):
                await asyncio.shield(self._spawning)
                result = await self._receive(seconds)
        except TimeoutError:
            raise WorkerStartError(
                f"a worker has not imported {self._function} within "
                f"{seconds:g} s; if the machine is busy, raise start_timeout{self._last_output()}"
            ) from None
        if isinstance(result, Raised):
            raise WorkerStartError(
                f"worker {self.process_id} cannot import {self._function}: {result.error_type}: "
                f"{result.error_message}\n{result.traceback}".rstrip()
            )
        if result is None:
            raise WorkerStartError(self._exit_message(f"imported {self._function}"))

    async def run(self, call: WorkerCall, frame: bytes) -> object:
        """Send a call, encoded as `frame`, and wait for the result of the function.

        Raises CallFailedError, after which the worker can be used again, or another
        IsolationError, after which it has to be killed.
        """
        self.calls += 1
        self._pipes.send(frame)
        try:
            result = await self._receive(call.timeout)
        except TimeoutError:
            raise CallTimeoutError(
                f"{self._function} returned no result within {call.timeout:g} s and was killed"
            ) from None
        match result:
            case None:
                raise self._exit_error(call)
            case Raised(error_type, error_message, traceback):
                raise CallFailedError(self._function, error_type, error_message, traceback)
            case _:
                return result.value

    async def _spawn(self) -> None:
        loop = asyncio.get_running_loop()
        setup = WorkerSetup(self._function, sys.path, os.getpid(), self._settings.memory_bytes)
        try:
            await loop.subprocess_exec(
                lambda: self._pipes,
                sys.executable,
                "-P",  # keeps the folder of the program out of the module search path
                str(_PROGRAM),
                msgspec.json.encode(setup).decode(),
                env=self._settings.environment,
                start_new_session=True,
            )
        except BaseException as error:
            self._pipes.set_ended()
            if not isinstance(error, OSError):
                raise
            raise WorkerStartError(
                f"no process could be started for {self._function}: {type(error).__name__}: {error}"
            ) from error

    async def _receive(self, seconds: float) -> CallResult | None:
        message = await self._pipes.receive(seconds)
        try:
            return None if message is None else _RESULTS.decode(message)
        except msgspec.MsgspecError as error:
            raise IsolationError(
                f"worker {self.process_id} of {self._function} sent an unreadable result: {error}"
            ) from error

    def _exit_error(self, call: WorkerCall) -> IsolationError:
        status = self._pipes.exit_status
        if status == -signal.SIGPROF and call.cpu_timeout is not None:
            return CpuTimeExceededError(
                f"{self._function} used up its {call.cpu_timeout:g} s of processor time and "
                "was killed"
            )
        if status == -signal.SIGALRM:
            return CallTimeoutError(
                f"{self._function} returned no result within {call.timeout:g} s and ended itself"
            )
        return WorkerDiedError(self._exit_message(f"ran {self._function}"))

    def _exit_message(self, activity: str) -> str:
        how = describe_exit(self._pipes.exit_status)
        return f"worker {self.process_id} {how} while it {activity}{self._last_output()}"

    def _last_output(self) -> str:
        output = self._pipes.last_output
        return f"; its last output:\n{output}" if output else ""


def describe_exit(status: int | None) -> str:
    """A process's exit status in words: `worker 12 {was killed by …}`."""
    if status is None:
        return "closed its pipes"
    if status >= 0:
        return f"ended with exit status {status}"
    if -status == signal.SIGKILL:
        return "was killed with SIGKILL, most often by the system for lack of memory"
    try:
        return f"was ended by {signal.Signals(-status).name} ({signal.strsignal(-status)})"
    except ValueError:
        return f"was ended by signal {-status}"
