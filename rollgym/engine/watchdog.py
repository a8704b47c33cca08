"""Says so when the event loop is blocked, and by what.

Deadlines fire on the event loop. A worker that computes or waits without giving way holds up all of
them, and from outside the run merely looks stuck. So a thread knocks every second, and when nobody
answers for a while it logs where the blocked thread is.
"""

import asyncio
import logging
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

KNOCK_INTERVAL = 1.0
PATIENCE = 10.0

log = logging.getLogger(__name__)


@contextmanager
def watched(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Watch the loop, which this thread is about to run."""
    done = threading.Event()
    thread = threading.Thread(
        target=_watch,
        args=(loop, threading.get_ident(), done),
        name="rollgym-watchdog",
        daemon=True,
    )
    thread.start()
    try:
        yield
    finally:
        done.set()


def _watch(loop: asyncio.AbstractEventLoop, blocked: int, done: threading.Event) -> None:
    while not done.wait(KNOCK_INTERVAL):
        answered = threading.Event()
        try:
            loop.call_soon_threadsafe(answered.set)
        except RuntimeError:  # the loop was closed between the two
            return
        waited, patience = 0.0, PATIENCE
        while not done.is_set() and not answered.wait(patience):
            waited += patience
            patience = waited
            if not done.is_set():
                _report(waited, blocked)


def _report(seconds: float, blocked: int) -> None:
    frame = sys._current_frames().get(blocked)  # noqa: SLF001 - there is no other way to ask
    stack = "".join(traceback.format_stack(frame)[-8:]) if frame else "(the thread is gone)\n"
    log.warning(
        "the event loop has been blocked for %.0f s, and no deadline can fire meanwhile. "
        "A worker must not compute or wait without giving way. It is here:\n%s",
        seconds,
        stack,
    )
