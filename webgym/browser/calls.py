"""Calls that can all be interrupted at once, and tasks that outlive their caller.

When a session or a node is lost, its callers should not wait for their deadlines. So every call is
registered while it runs, and `InterruptibleCalls.interrupt` ends them all with one error, whatever
they are waiting for.

A browser that is being closed must not stay open because its client disconnected. Such work is a
task of `BackgroundTasks`, and its owner waits for it at the end, for a bounded time.
"""

import asyncio
import logging
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, TypeVar


class InterruptibleCalls:
    """The running calls of one session or one node."""

    __slots__ = ("_calls",)

    def __init__(self) -> None:
        self._calls: set[InterruptibleCall] = set()

    def __len__(self) -> int:
        return len(self._calls)

    def begin(self) -> "InterruptibleCall":
        """`with calls.begin(): ...` around awaits of the current task."""
        return InterruptibleCall(self._calls)

    def interrupt(self, error: Exception) -> None:
        """End all running calls with this error."""
        for call in tuple(self._calls):
            call.interrupt(error)


class InterruptibleCall:
    """One running call. Raises the error with which it was interrupted.

    A cancellation from outside has priority over an interruption.
    """

    __slots__ = ("_calls", "_cancelling", "_error", "_task")

    def __init__(self, calls: "set[InterruptibleCall]") -> None:
        self._calls = calls
        self._error: Exception | None = None

    def __enter__(self) -> "InterruptibleCall":
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a call must run in a task, so that it can be interrupted")
        self._task = task
        self._cancelling = task.cancelling()
        self._calls.add(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._calls.discard(self)
        if self._error is None:
            return
        interrupted_alone = self._task.uncancel() <= self._cancelling
        if interrupted_alone and kind is not None and issubclass(kind, asyncio.CancelledError):
            raise self._error from None

    def interrupt(self, error: Exception) -> None:
        """End the call, unless it was interrupted already or the current task runs it."""
        if self._error is None and self._task is not asyncio.current_task():
            self._error = error
            self._task.cancel()


T = TypeVar("T")
_LOGGER = logging.getLogger(__name__)


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
