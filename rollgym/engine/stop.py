"""Requests to stop a collection: the first lets running attempts finish, the second does not."""

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import IntEnum
from types import FrameType


class StopLevel(IntEnum):
    """How urgently the collection is to stop."""

    RUNNING = 0
    DRAINING = 1
    NOW = 2


class Stop:
    """A request to stop, which can only become more urgent."""

    def __init__(self) -> None:
        self.level = StopLevel.RUNNING
        self._listener: Callable[[], None] = lambda: None

    def request(self) -> None:
        """Request a stop, or a more urgent one. Call it on the event loop of the collection."""
        self.level = StopLevel(min(self.level + 1, StopLevel.NOW))
        self._listener()

    def listen(self, listener: Callable[[], None]) -> None:
        """Set the function that is called at every request."""
        self._listener = listener


@contextmanager
def stopping_on_signals(stop: Stop) -> Iterator[None]:
    """Turn SIGINT and SIGTERM into requests to stop; the third signal raises KeyboardInterrupt.

    The handlers run between bytecodes of the main thread, also while a worker blocks the event
    loop, so the third signal interrupts even that. In other threads, where Python delivers no
    signals, this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    seen, owner = 0, os.getpid()

    def handle(number: int, _frame: FrameType | None) -> None:
        nonlocal seen
        if os.getpid() != owner:  # in a child that a worker forked: the default action
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            return
        seen += 1
        if seen > StopLevel.NOW:
            raise KeyboardInterrupt
        loop.call_soon_threadsafe(stop.request)

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
