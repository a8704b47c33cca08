"""A time limit on a few awaits, made for being set a dozen times in every rollout.

What `asyncio.timeout` does, without its states and rescheduling: a timer cancels the task, and the
cancellation becomes a TimeoutError where it leaves the block.
"""

import asyncio
from types import TracebackType


class Limit:
    """`with Limit(seconds): ...` around awaits of the present task. Raises TimeoutError.

    A cancellation from outside passes, also when it comes together with the timer.
    """

    __slots__ = ("_cancelling", "_expired", "_seconds", "_task", "_timer")

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._expired = False

    @property
    def expired(self) -> bool:
        return self._expired

    def __enter__(self) -> "Limit":
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a limit needs a task to cancel")
        self._task = task
        self._cancelling = task.cancelling()
        self._timer = task.get_loop().call_later(self._seconds, self._expire)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if not self._expired:
            self._timer.cancel()
            return
        cancelled_by_us_alone = self._task.uncancel() <= self._cancelling
        if cancelled_by_us_alone and kind is not None and issubclass(kind, asyncio.CancelledError):
            raise TimeoutError from error

    def _expire(self) -> None:
        self._expired = True
        self._task.cancel()
