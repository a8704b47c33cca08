"""Calls that can all be interrupted at once, and tasks that outlive their caller.

When a session or a node is lost, its callers should not wait for their deadlines. So every call is
registered while it runs, and `InterruptibleCalls.interrupt` ends them all with one error, whatever
they are waiting for.

A browser that is being closed must not stay open because its client disconnected. Such work is a
task of `BackgroundTasks`, and its owner waits for it at the end, for a bounded time.
"""

import asyncio
import logging
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")
_LOGGER = logging.getLogger(__name__)


class InterruptibleCalls:
    """The running calls of one session or one node."""

    def __init__(self) -> None:
        self._calls: set[_RunningCall] = set()

    def __len__(self) -> int:
        return len(self._calls)

    @contextmanager
    def begin(self) -> Iterator[None]:
        """`with calls.begin(): ...` around awaits of the current task, which must be a task.

        Raises the error with which the call was interrupted. A cancellation from outside has
        priority.
        """
        call = _RunningCall()
        self._calls.add(call)
        try:
            yield
        except asyncio.CancelledError:
            if call.error is None or call.task.cancelling() - 1 > call.cancelling:
                raise
            raise call.error from None
        finally:
            self._calls.discard(call)
            if call.error is not None:
                call.task.uncancel()

    def interrupt(self, error: Exception) -> None:
        """End all running calls with this error, except one that the current task runs."""
        for call in self._calls:
            if call.error is None and call.task is not asyncio.current_task():
                call.error = error
                call.task.cancel()


class _RunningCall:
    __slots__ = ("cancelling", "error", "task")

    def __init__(self) -> None:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a call must run in a task, so that it can be interrupted")
        self.task = task
        self.cancelling = task.cancelling()
        self.error: Exception | None = None


class BackgroundTasks:
    """The tasks of one owner."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Start a task. An error is also logged, in case its caller does not wait."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    async def finish(self, seconds: float) -> None:
        """Wait this long for all tasks, then cancel the others."""
        deadline = asyncio.get_running_loop().time() + seconds
        while self._tasks and (left := deadline - asyncio.get_running_loop().time()) > 0:
            await asyncio.wait(self._tasks, timeout=left)
        for task in tuple(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=1.0)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _LOGGER.debug("a background task ended with %r", error)
