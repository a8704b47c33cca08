"""Requests to stop, by signals and for work that is running.

The first request lets the running attempts of a collection finish, the second does not.
"""

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from enum import IntEnum
from types import FrameType
from typing import NoReturn

from rollgym.records import RolloutKey

CANCEL_TIMEOUT = 1.0


class StopLevel(IntEnum):
    """How urgently the collection is to stop."""

    RUNNING = 0
    DRAINING = 1
    NOW = 2


class Stop:
    """A request to stop, which can only become more urgent.

    `reason` says why the collection cannot go on, where that was not a request of a person.
    """

    def __init__(self) -> None:
        self.level = StopLevel.RUNNING
        self.reason: str | None = None
        self._listener: Callable[[], None] = lambda: None

    def request(self) -> None:
        """Request a stop, or a more urgent one. Call it on the event loop of the collection."""
        self.level = StopLevel(min(self.level + 1, StopLevel.NOW))
        self._listener()

    def give_up(self, reason: str) -> None:
        """Stop because the collection cannot go on. Call it on the event loop of the collection."""
        self.reason = self.reason or reason
        self.level = max(self.level, StopLevel.DRAINING)
        self._listener()

    def listen(self, listener: Callable[[], None]) -> None:
        """Set the function that is called at every request."""
        self._listener = listener


class AttemptTimeouts:
    """Requests to end attempts that take too long, from any thread.

    The engine cancels such an attempt as at its deadline: it fails with a timeout, and is retried
    by the rules for timeouts.
    """

    def __init__(self) -> None:
        self._listener: Callable[[RolloutKey, int], object] = lambda _key, _attempt: None

    def request(self, key: RolloutKey, attempt: int) -> None:
        """Ask to end this attempt of a rollout; ignored if it is not running any more."""
        self._listener(key, attempt)

    def listen(self, listener: Callable[[RolloutKey, int], object]) -> None:
        """Set the function that is called at every request."""
        self._listener = listener


async def done_before(stop: asyncio.Event, work: Coroutine[object, object, object]) -> bool:
    """Run `work` until it is done or `stop` is set; returns whether it is done.

    Raises the errors of the work. Work that is not done is cancelled, and waited for a short time
    where it ignores its cancellation.
    """
    working, stopping = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            return False
        working.result()
        return True
    finally:
        for task in (working, stopping):
            task.cancel()
        await asyncio.wait({working, stopping}, timeout=CANCEL_TIMEOUT)


def interrupt() -> NoReturn:
    """Raise KeyboardInterrupt."""
    raise KeyboardInterrupt


@contextmanager
def stopping_on_signals(
    request: Callable[[], None],
    at_once: Callable[[], NoReturn] = interrupt,
    *,
    requests: int = 1,
    hangup: bool = True,
) -> Iterator[None]:
    """Turn SIGINT, SIGTERM and, with `hangup`, SIGHUP into requests to stop.

    The first `requests` signals call `request` on the event loop; every further one calls
    `at_once`. The handlers run between bytecodes of the main thread, also while other code blocks
    the event loop, so `at_once` interrupts even that. An ignored SIGHUP, as under nohup, stays
    ignored. In other threads, where Python delivers no signals, this does nothing. In a forked
    child the signals have their default action.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    seen = 0

    def handle(_number: int, _frame: FrameType | None) -> None:
        nonlocal seen
        seen += 1
        if seen > requests:
            at_once()
        loop.call_soon_threadsafe(request)

    numbers = [signal.SIGINT, signal.SIGTERM]
    if hangup and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    before = {number: signal.signal(number, handle) for number in numbers}
    outer = set(_HANDLED)
    _HANDLED.update(numbers)
    try:
        yield
    finally:
        _HANDLED.intersection_update(outer)
        for number, handler in before.items():
            signal.signal(number, handler)


_HANDLED: set[int] = set()
"""The signals that `stopping_on_signals` handles now."""


def _restore_default_actions() -> None:
    """At once after a fork: a handler would have to wait for Python, which may miss the signal."""
    for number in _HANDLED:
        signal.signal(number, signal.SIG_DFL)


os.register_at_fork(after_in_child=_restore_default_actions)
