"""Asking a collection to stop: once to finish what is in flight, twice to stop now."""

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import IntEnum
from types import FrameType


class StopLevel(IntEnum):
    """How urgently the collection is asked to stop."""

    RUNNING = 0
    DRAINING = 1
    NOW = 2


class Stop:
    """A request to stop, which only ever grows more urgent."""

    def __init__(self) -> None:
        self.level = StopLevel.RUNNING
        self._listener: Callable[[], None] = lambda: None

    def request(self) -> None:
        """Ask once more. Call it on the event loop of the collection."""
        self.level = StopLevel(min(self.level + 1, StopLevel.NOW))
        self._listener()

    def listen(self, listener: Callable[[], None]) -> None:
        """Have the collection told of every request."""
        self._listener = listener


@contextmanager
def stopping_on_signals(stop: Stop) -> Iterator[None]:
    """SIGINT and SIGTERM become requests to stop; from the third on they raise KeyboardInterrupt.

    The handlers run between bytecodes of the main thread, also while a worker blocks the event
    loop, so further signals break out even then. Off the main thread, where Python delivers no
    signals, this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    seen, owner = 0, os.getpid()

    def handle(number: int, _frame: FrameType | None) -> None:
        nonlocal seen
        if os.getpid() != owner:  # a child that a worker forked ends as it would without us
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
