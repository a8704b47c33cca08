"""Calls in flight that can all be ended at once.

When a session or a node is lost, nobody who waits for it should have to wait for a deadline. So
every call is noted while it runs, and `interrupt` ends them all with one error, whatever they are
waiting for.
"""

import asyncio
from types import TracebackType


class Calls:
    """The calls in flight of one session or one node."""

    __slots__ = ("_calls",)

    def __init__(self) -> None:
        self._calls: set[Call] = set()

    def __len__(self) -> int:
        return len(self._calls)

    def begin(self) -> "Call":
        """`with calls.begin(): ...` around awaits of the present task."""
        return Call(self._calls)

    def interrupt(self, error: Exception) -> None:
        """End all that are in flight now with this error."""
        for call in tuple(self._calls):
            call.interrupt(error)


class Call:
    """One call in flight. Raises the error with which it was interrupted.

    A cancellation from outside passes, also when it comes together with an interruption.
    """

    __slots__ = ("_calls", "_cancelling", "_error", "_task")

    def __init__(self, calls: "set[Call]") -> None:
        self._calls = calls
        self._error: Exception | None = None

    def __enter__(self) -> "Call":
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a call needs a task that can be interrupted")
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
        """End it, unless it was ended already or ends itself in this moment."""
        if self._error is None and self._task is not asyncio.current_task():
            self._error = error
            self._task.cancel()
