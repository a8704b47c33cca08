"""A time limit on a few awaits, cheap enough to be set a dozen times in every rollout.

It does what `asyncio.timeout` does, without its states and rescheduling: the task is cancelled, and
the cancellation becomes a TimeoutError where it leaves the block.

Nearly all limits are long and never expire, and a timer for each would cost more than everything
else here. So one timer checks all the long ones, a few times a second; a short one has a timer.
"""

import asyncio

LOOK_INTERVAL = 0.1
LONG = 5.0


class Limit:
    """`with Limit(seconds): ...` around awaits of the current task. Raises TimeoutError.

    A long limit may expire slightly late. A cancellation from outside is not swallowed, also when
    the limit expires at the same time.
    """

    __slots__ = (
        *("_cancelling", "_loop", "_seconds", "_task", "_timer", "_watch"),
        *("expired", "expires"),
    )

    def __init__(self, seconds: float, loop: asyncio.AbstractEventLoop | None = None) -> None:
        """`loop` is the running one, for a caller that knows it."""
        self._seconds = seconds
        self._loop = loop
        self.expired = False

    def __enter__(self) -> "Limit":
        loop = self._loop or asyncio.get_running_loop()
        task = asyncio.current_task(loop)
        if task is None:
            raise RuntimeError("a limit needs a task to cancel")
        self._task = task
        self._cancelling = task.cancelling()
        self._timer: asyncio.TimerHandle | None = None
        if self._seconds < LONG:
            self._timer = loop.call_later(self._seconds, self.expire)
        else:
            self.expires = loop.time() + self._seconds
            self._watch = _WATCHES.get(loop) or _Watch(loop)
            self._watch.limits.add(self)
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if not self.expired:
            if self._timer is None:
                self._watch.limits.discard(self)
            else:
                self._timer.cancel()
            return
        cancelled_by_us_alone = self._task.uncancel() <= self._cancelling
        if cancelled_by_us_alone and isinstance(error, asyncio.CancelledError):
            raise TimeoutError from error

    def expire(self) -> None:
        self.expired = True
        self._task.cancel()


class _Watch:
    """Checks the long limits of one event loop, while there are any."""

    __slots__ = ("_loop", "limits")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.limits: set[Limit] = set()
        self._loop = loop
        for ended in [each for each in _WATCHES if each.is_closed()]:
            del _WATCHES[ended]
        _WATCHES[loop] = self
        loop.call_later(LOOK_INTERVAL, self._look)

    def _look(self) -> None:
        now = self._loop.time()
        for limit in [limit for limit in self.limits if limit.expires <= now]:
            self.limits.discard(limit)
            limit.expire()
        if self.limits:
            self._loop.call_later(LOOK_INTERVAL, self._look)
        else:
            del _WATCHES[self._loop]


_WATCHES: dict[asyncio.AbstractEventLoop, _Watch] = {}
