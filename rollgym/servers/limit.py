"""A time limit on a few awaits, cheap enough to be set a dozen times in every rollout.

It does what `asyncio.timeout` does, without its states and rescheduling: the task is cancelled, and
the cancellation becomes a TimeoutError where it leaves the block.

Nearly all limits are long and never expire, and a timer for each would cost more than everything
else here. So one timer checks all the long ones, a few times a second; a short one has a timer.
"""

import asyncio
from asyncio import current_task, get_running_loop

LOOK_INTERVAL = 0.1
LONG = 5.0


class Limit:
    """`with Limit(seconds): ...` around awaits of the current task. Raises TimeoutError.

    A long limit may expire slightly late. A cancellation from outside is not swallowed, also when
    the limit expires at the same time.
    """

    __slots__ = (
        *("_cancelling", "_limits", "_loop", "_seconds", "_task", "_timer"),
        *("expired", "expires"),
    )

    def __init__(self, seconds: float, loop: asyncio.AbstractEventLoop | None = None) -> None:
        """`loop` is the running one, for a caller that knows it."""
        self._seconds = seconds
        self._loop = loop
        self.expired = False

    def __enter__(self) -> "Limit":
        loop, seconds = self._loop or get_running_loop(), self._seconds
        task = current_task(loop)
        if task is None:
            raise RuntimeError("a limit needs a task to cancel")
        self._task = task
        self._cancelling = task.cancelling()
        if seconds < LONG:
            self._limits: set[Limit] | None = None
            self._timer = loop.call_later(seconds, self.expire)
        else:
            self.expires = loop.time() + seconds
            limits = _LIMITS.get(loop)
            if limits is None:
                limits = _watched(loop)
            limits.add(self)
            self._limits = limits
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if not self.expired:
            if self._limits is None:
                self._timer.cancel()
            else:
                self._limits.discard(self)
            return
        cancelled_by_us_alone = self._task.uncancel() <= self._cancelling
        if cancelled_by_us_alone and isinstance(error, asyncio.CancelledError):
            raise TimeoutError from error

    def expire(self) -> None:
        self.expired = True
        self._task.cancel()


_LIMITS: dict[asyncio.AbstractEventLoop, set[Limit]] = {}
"""The long limits of each event loop that is being looked at."""


def _watched(loop: asyncio.AbstractEventLoop) -> set[Limit]:
    """The long limits of a loop that had none; they are looked at while there are any."""
    for ended in [each for each in _LIMITS if each.is_closed()]:
        del _LIMITS[ended]
    limits = _LIMITS[loop] = set()
    loop.call_later(LOOK_INTERVAL, _look, loop, limits)
    return limits


def _look(loop: asyncio.AbstractEventLoop, limits: set[Limit]) -> None:
    now = loop.time()
    for limit in [limit for limit in limits if limit.expires <= now]:
        limits.discard(limit)
        limit.expire()
    if limits:
        loop.call_later(LOOK_INTERVAL, _look, loop, limits)
    else:
        del _LIMITS[loop]
