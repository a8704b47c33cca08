"""Isolated workers: CPU-heavy or unsafe Python in processes that are killed at a deadline.

*Why processes.* A thread cannot be stopped, and one regular expression can hold the interpreter
for hours. A process can be killed at any instruction.

*Slots.* There are `workers` slots; calls wait for one in the order in which they came. A call with
a slot uses an idle process or starts one, so processes exist only where calls do.

*Killing.* A call without a result kills its process at once, with the whole process group: at the
deadline, when the process itself ends, and when the call is cancelled, so that no abandoned work
goes on. The next call starts a new process.

*What isolation means here.* The function is trusted, its arguments are not: they may make it crash,
hang, print or fill memory. This is not a sandbox for malicious code: a worker can do what its user
can. Its environment holds only the parent's variables that a Python program needs, so no
credentials.
"""

import asyncio
import logging
import math
import os
import re
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from rollgym.closing import AsyncClosable
from rollgym.servers.isolation.child import WorkerCall, framed
from rollgym.servers.isolation.process import (
    ArgumentsError,
    CallFailedError,
    IsolatedProcess,
    IsolationError,
    NoFreeWorkerError,
    WorkersClosedError,
    WorkerSettings,
)

WAIT_TIMEOUT = 600.0
LONGEST_TIMEOUT = 1e6
MAX_CALLS = 1000
"""The number of calls after which a worker is replaced."""
KILL_GRACE = 5.0
"""Seconds to wait for killed processes to end."""
_FUNCTION = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")

log = logging.getLogger(__name__)


_INHERITED = re.compile(
    "PATH|HOME|USER|LANG|LC_.*|TZ|TMPDIR|VIRTUAL_ENV|PYTHON.*|(DY)?LD_.*|.*_NUM_THREADS"
)


class CallSlots:
    """Slots for at most `count` calls at the same time, with a bounded queue."""

    def __init__(self, function: str, count: int, queue_limit: int) -> None:
        self._function = function
        self._free = asyncio.Semaphore(count)
        self._queue_limit = queue_limit
        self._waiting = 0

    @asynccontextmanager
    async def acquire(self, wait_timeout: float) -> AsyncIterator[None]:
        """Wait for a slot and hold it during the block. Raises NoFreeWorkerError."""
        if self._free.locked() and self._waiting >= self._queue_limit:
            raise NoFreeWorkerError(
                f"{self._waiting} calls of {self._function} are waiting for a worker already; "
                "use more workers or fewer rollouts at the same time"
            )
        await self._wait(wait_timeout)
        try:
            yield
        finally:
            self._free.release()

    async def _wait(self, wait_timeout: float) -> None:
        self._waiting += 1
        try:
            async with asyncio.timeout(wait_timeout):
                await self._free.acquire()
        except TimeoutError:
            raise NoFreeWorkerError(
                f"no worker for {self._function} became free within {wait_timeout:g} s; "
                "use more workers or fewer rollouts at the same time"
            ) from None
        finally:
            self._waiting -= 1


class IsolatedWorkers(AsyncClosable):
    """Runs one function in separate processes. Close it at the end, or use it as `async with`.

    Args:
        function: `package.module:function`, imported in the workers only. Its arguments and its
            result are plain data: numbers of up to 64 bits, text, bytes, lists and dictionaries.
        workers: Number of calls that run at the same time.
        start_timeout: Seconds that a process may take to start and to import the function.
        memory_bytes: Limit of a worker's address space, beyond which Python raises MemoryError
            there. Only Linux enforces it.
        queue_limit: Number of calls that may wait for a worker.
        environment: Variables for the workers beside the few that they inherit.
    """

    def __init__(
        self,
        function: str,
        *,
        workers: int = 2,
        start_timeout: float = 20.0,
        memory_bytes: int | None = None,
        queue_limit: int = 10_000,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Raises ValueError for an invalid name or number; starts nothing."""
        if not _FUNCTION.fullmatch(function):
            raise ValueError(f"{function!r} is not of the form 'package.module:function'")
        if workers < 1 or queue_limit < 0:
            raise ValueError("workers must be at least 1, queue_limit at least 0")
        if memory_bytes is not None and sys.platform != "linux":
            log.warning("%s: this system does not enforce memory_bytes", function)
        self._settings = WorkerSettings(
            function,
            _duration("start_timeout", start_timeout),
            memory_bytes,
            worker_environment(os.environ, environment or {}),
        )
        self._slots = CallSlots(function, workers, queue_limit)
        self._calls = 0
        self._no_calls = asyncio.Event()
        self._no_calls.set()
        self._idle: list[IsolatedProcess] = []
        self._processes: set[IsolatedProcess] = set()
        self._closed = False

    async def call(
        self,
        *arguments: Any,
        timeout: float,  # noqa: ASYNC109 - it is enforced on the process, not on this task
        cpu_timeout: float | None = None,
        wait_timeout: float = WAIT_TIMEOUT,
    ) -> Any:
        """Run the function in a worker and return its result.

        Args:
            *arguments: Plain data.
            timeout: Seconds on the clock that the function may run, not counting the time to get
                and start a worker.
            cpu_timeout: Seconds of processor time that it may use. It does not depend on how busy
                the machine is, so use it where the time decides about a reward.
            wait_timeout: Seconds to wait for a free worker.

        Raises a subclass of IsolationError.
        """
        call = WorkerCall(
            arguments,
            _duration("timeout", timeout),
            None if cpu_timeout is None else _duration("cpu_timeout", cpu_timeout),
        )
        frame = self._framed(call)
        with self._counted():
            async with self._slots.acquire(_duration("wait_timeout", wait_timeout)):
                worker = await self._free_worker()
                return await self._run(worker, call, frame)

    async def close(self) -> None:
        """Kill the workers and wait until they have ended; running calls raise."""
        self._closed = True
        self._idle.clear()
        for worker in self._processes:
            worker.kill()
        await self._no_calls.wait()
        if self._processes:
            await asyncio.wait([worker.ended for worker in self._processes], timeout=KILL_GRACE)
        if self._processes:
            log.error(
                "%d workers of %s were killed %g s ago and have not ended; a system call must be "
                "blocking them",
                len(self._processes),
                self._settings.function,
                KILL_GRACE,
            )

    def _framed(self, call: WorkerCall) -> bytes:
        try:
            return framed(call)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise ArgumentsError(
                f"the arguments for {self._settings.function} cannot be sent to a worker: {error}"
            ) from error

    @contextmanager
    def _counted(self) -> Iterator[None]:
        self._calls += 1
        self._no_calls.clear()
        try:
            self._require_open()
            yield
        except IsolationError as error:
            if self._closed and not isinstance(error, WorkersClosedError):
                raise self._closed_error() from error
            raise
        finally:
            self._calls -= 1
            if not self._calls:
                self._no_calls.set()

    async def _free_worker(self) -> IsolatedProcess:
        self._require_open()
        while self._idle:
            worker = self._idle.pop()
            if worker.alive:
                return worker
        worker = IsolatedProcess(self._settings)
        self._processes.add(worker)
        worker.ended.add_done_callback(lambda _: self._processes.discard(worker))
        try:
            await worker.ready()
        except BaseException:
            worker.kill()
            raise
        return worker

    async def _run(self, worker: IsolatedProcess, call: WorkerCall, frame: bytes) -> object:
        """Run the call. Afterwards the worker is idle again or killed."""
        usable = False
        try:
            result = await worker.run(call, frame)
            usable = True
        except CallFailedError:
            usable = True
            raise
        finally:
            if usable and worker.calls < MAX_CALLS and not self._closed:
                self._idle.append(worker)
            else:
                worker.kill()
        return result

    def _require_open(self) -> None:
        if self._closed:
            raise self._closed_error()

    def _closed_error(self) -> WorkersClosedError:
        return WorkersClosedError(f"the workers of {self._settings.function} were closed")


def _duration(name: str, seconds: float) -> float:
    if not (math.isfinite(seconds) and 0 < seconds <= LONGEST_TIMEOUT):
        raise ValueError(f"{name} must be between 0 and {LONGEST_TIMEOUT:g} seconds: {seconds}")
    return float(seconds)


def worker_environment(
    inherited: Mapping[str, str], additional: Mapping[str, str]
) -> dict[str, str]:
    """The environment variables of a worker: those a Python program needs, and `additional`.

    The parent's other variables often hold credentials, and workers handle untrusted text. Hashes
    are the same in every worker, so that the same call runs the same way in each.
    """
    kept = {name: value for name, value in inherited.items() if _INHERITED.fullmatch(name)}
    return {"PYTHONHASHSEED": "0"} | kept | dict(additional)
