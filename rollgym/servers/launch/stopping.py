"""Being asked to stop: by signals, and in the middle of some work."""

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

GIVE_UP_TIMEOUT = 1.0


async def done_before(stop: asyncio.Event, work: Coroutine[object, object, object]) -> bool:
    """Whether the work came to its end before `stop` was set; if not, it is cancelled.

    Raises what the work raised. Work that ignores its cancellation is waited for a little while.
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
        await asyncio.wait({working, stopping}, timeout=GIVE_UP_TIMEOUT)


@contextmanager
def stopping_on_signals(stop: asyncio.Event, at_once: Callable[[], NoReturn]) -> Iterator[None]:
    """SIGINT, SIGTERM and SIGHUP set `stop`; a second one calls `at_once`.

    The handlers run between bytecodes of the main thread, also while a plug-in blocks the event
    loop. Whoever had SIGHUP ignored, as nohup does, keeps it ignored.
    """
    loop, owner = asyncio.get_running_loop(), os.getpid()
    asked = False

    def handle(number: int, _frame: FrameType | None) -> None:
        nonlocal asked
        if os.getpid() != owner:  # a child that a plug-in forked ends as it would without us
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        elif asked:
            at_once()
        else:
            asked = True
            loop.call_soon_threadsafe(stop.set)

    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    before = {number: signal.signal(number, handle) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
