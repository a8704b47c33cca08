"""Isolated workers: CPU-heavy or unsafe Python in processes that are killed at a deadline.

*Why processes.* A thread cannot be stopped, and one regular expression can hold the interpreter
for hours. A process can be killed at any instruction.

*Turns.* There are `workers` turns; calls wait for one in the order in which they came. A call with
a turn takes an idle process or starts one, so processes exist only where calls do.

*Killing.* Whatever keeps a call from its answer kills the process at once, with its whole group:
the deadline, the end of the process itself, and the cancellation of the call, for work that
nobody waits for must not go on. The next call starts a new process.

*What isolation means here.* The function is trusted, what it is given is not: it may crash, hang,
print and eat memory. It is no sandbox for code that means harm: a worker can do what its user can.
Its environment holds none of the parent's variables but those that a Python program needs, so no
credentials.
"""

import asyncio
import logging
import math
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

from rollgym.servers.isolation.child import Call, framed
from rollgym.servers.isolation.environment import worker_environment
from rollgym.servers.isolation.errors import (
    ArgumentsError,
    CallFailedError,
    IsolationError,
    WorkersClosedError,
)
from rollgym.servers.isolation.turns import Turns
from rollgym.servers.isolation.worker import Blueprint, Worker

WAIT_TIMEOUT = 600.0
LONGEST_TIMEOUT = 1e6
_FUNCTION = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")

log = logging.getLogger(__name__)


class IsolatedWorkers:
    """Runs one function in processes of its own. Close it in the end, or use it as `async with`.

    Args:
        function: `package.module:function`, imported in the workers only. Its arguments and its
            result are plain data: numbers of up to 64 bits, text, bytes, lists and dictionaries.
        workers: How many calls run at the same time.
        start_timeout: How long a process may take to start and to import the function.
        memory_bytes: The address space of a worker, beyond which Python raises MemoryError there.
            Only Linux enforces it.
        max_calls: A worker is replaced after so many calls.
        queue_limit: How many calls may wait for a worker.
        kill_grace: How long to wait for killed processes to be gone.
        environment: Variables for the workers beside the few that they inherit.
    """

    def __init__(
        self,
        function: str,
        *,
        workers: int = 2,
        start_timeout: float = 20.0,
        memory_bytes: int | None = None,
        max_calls: int = 1000,
        queue_limit: int = 10_000,
        kill_grace: float = 5.0,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Raises ValueError for a name or a number that makes no sense; starts nothing."""
        if not _FUNCTION.fullmatch(function):
            raise ValueError(f"{function!r} is not of the form 'package.module:function'")
        if workers < 1 or max_calls < 1 or queue_limit < 0:
            raise ValueError("workers and max_calls must be at least 1, queue_limit at least 0")
        if memory_bytes is not None and sys.platform != "linux":
            log.warning("%s: this system does not enforce memory_bytes", function)
        self._blueprint = Blueprint(
            function,
            _duration("start_timeout", start_timeout),
            memory_bytes,
            worker_environment(os.environ, environment or {}),
        )
        self._max_calls = max_calls
        self._kill_grace = _duration("kill_grace", kill_grace)
        self._turns = Turns(function, workers, queue_limit)
        self._calls = 0
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._idle: list[Worker] = []
        self._processes: set[Worker] = set()
        self._closed = False

    async def call(
        self,
        *arguments: Any,
        timeout: float,  # noqa: ASYNC109 - it is enforced on the process, not on this task
        cpu_timeout: float | None = None,
        wait_timeout: float = WAIT_TIMEOUT,
    ) -> Any:
        """Run the function in a worker and return what it returns.

        Args:
            *arguments: Plain data.
            timeout: Seconds on the clock that the function may run, without the time that it takes
                to get a worker and to start it.
            cpu_timeout: Seconds of processor time that it may use. It does not depend on how busy
                the machine is, so let this one decide where the result counts.
            wait_timeout: Seconds to wait for a free worker.

        Raises an IsolationError; see there.
        """
        call = Call(
            arguments,
            _duration("timeout", timeout),
            None if cpu_timeout is None else _duration("cpu_timeout", cpu_timeout),
        )
        frame = self._framed(call)
        with self._counted():
            async with self._turns.take(_duration("wait_timeout", wait_timeout)):
                worker = await self._free_worker()
                return await self._ask(worker, call, frame)

    async def close(self) -> None:
        """Kill the workers and wait until they are gone; calls in progress raise."""
        self._closed = True
        self._idle.clear()
        for worker in self._processes:
            worker.kill()
        await self._quiet.wait()
        if self._processes:
            await asyncio.wait(
                [worker.ended for worker in self._processes], timeout=self._kill_grace
            )
        if self._processes:
            log.error(
                "%d workers of %s were killed %g s ago and are still there; the system must be "
                "holding them in the middle of an operation",
                len(self._processes),
                self._blueprint.function,
                self._kill_grace,
            )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    def _framed(self, call: Call) -> bytes:
        try:
            return framed(call)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise ArgumentsError(
                f"the arguments for {self._blueprint.function} cannot be sent to a worker: {error}"
            ) from error

    @contextmanager
    def _counted(self) -> Iterator[None]:
        self._calls += 1
        self._quiet.clear()
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
                self._quiet.set()

    async def _free_worker(self) -> Worker:
        self._require_open()
        while self._idle:
            worker = self._idle.pop()
            if worker.alive:
                return worker
        worker = Worker(self._blueprint)
        self._processes.add(worker)
        worker.ended.add_done_callback(lambda _: self._processes.discard(worker))
        try:
            await worker.ready()
        except BaseException:
            worker.kill()
            raise
        return worker

    async def _ask(self, worker: Worker, call: Call, frame: bytes) -> object:
        """The worker is idle again afterwards, or on its way out."""
        usable = False
        try:
            result = await worker.ask(call, frame)
            usable = True
        except CallFailedError:
            usable = True
            raise
        finally:
            if usable and worker.calls < self._max_calls and not self._closed:
                self._idle.append(worker)
            else:
                worker.kill()
        return result

    def _require_open(self) -> None:
        if self._closed:
            raise self._closed_error()

    def _closed_error(self) -> WorkersClosedError:
        return WorkersClosedError(f"the workers of {self._blueprint.function} were closed")


def _duration(name: str, seconds: float) -> float:
    if not (math.isfinite(seconds) and 0 < seconds <= LONGEST_TIMEOUT):
        raise ValueError(f"{name} must be between 0 and {LONGEST_TIMEOUT:g} seconds: {seconds}")
    return float(seconds)
