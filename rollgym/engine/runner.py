"""Running a coroutine on the fastest available event loop, with a bounded end and a watchdog.

`asyncio.run` waits without bound for tasks that ignore their cancellation; `run` waits a few
seconds.

*Watchdog.* Deadlines fire on the event loop. A worker that blocks the loop delays all of them, and
from outside the run looks stuck. So a thread sends the loop a callback every second; when it is not
called for a while, the thread logs the stack of the blocked thread and tells the listeners.
"""

import asyncio
import gc
import logging
import sys
import threading
import traceback
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")
CLOSE_TIMEOUT = 5.0
PING_INTERVAL = 1.0
BLOCKED_AFTER = 10.0
SHOWN_FRAMES = 4

log = logging.getLogger(__name__)


Blocked = Callable[[str], None]
Responding = Callable[[], None]
_listeners: dict[asyncio.AbstractEventLoop, tuple[Blocked, Responding]] = {}


@contextmanager
def listening_for_blocks(blocked: Blocked, responding: Responding) -> Iterator[None]:
    """Have the watchdog's thread call these functions. Only the loop of `run` is watched.

    `blocked` gets the innermost lines of the code that blocks the loop; `responding` is called when
    the loop runs again.
    """
    loop = asyncio.get_running_loop()
    _listeners[loop] = blocked, responding
    try:
        yield
    finally:
        _listeners.pop(loop, None)


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run `main` and return its result; wait at most a few seconds for tasks it left running."""
    loop = _new_loop()
    try:
        asyncio.set_event_loop(loop)
        with _watched(loop), _less_garbage_collection():
            return loop.run_until_complete(main)
    finally:
        # Cancelled from outside the loop, so that no task runs another step first.
        leftover = asyncio.all_tasks(loop)
        for task in leftover:
            task.cancel()
        try:
            loop.run_until_complete(_wind_down(leftover))
        finally:
            asyncio.set_event_loop(None)
            loop.close()


@contextmanager
def _less_garbage_collection() -> Iterator[None]:
    """Search for reference cycles less often, and not among objects that exist already.

    A collection makes many small objects without cycles. Searching all imported modules because of
    them would take a tenth of the CPU time.
    """
    threshold = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    try:
        yield
    finally:
        gc.set_threshold(*threshold)
        gc.unfreeze()


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop  # noqa: PLC0415 - not on every platform
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


async def _wind_down(leftover: set[asyncio.Task[Any]]) -> None:
    if leftover:
        await asyncio.wait(leftover, timeout=CLOSE_TIMEOUT)
    await asyncio.get_running_loop().shutdown_asyncgens()


@contextmanager
def _watched(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Watch the loop that this thread is about to run."""
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
    while not done.wait(PING_INTERVAL):
        responded = threading.Event()
        try:
            loop.call_soon_threadsafe(responded.set)
        except RuntimeError:  # the loop was closed meanwhile
            return
        waited, timeout = 0.0, BLOCKED_AFTER
        while not done.is_set() and not responded.wait(timeout):
            waited += timeout
            timeout = waited
            if not done.is_set():
                _report(waited, blocked, _listeners.get(loop))
        if waited and loop in _listeners and not done.is_set():
            _, responding = _listeners[loop]
            responding()


def _report(seconds: float, blocked: int, listener: tuple[Blocked, Responding] | None) -> None:
    frame = sys._current_frames().get(blocked)  # noqa: SLF001 - there is no public way
    stack = "".join(traceback.format_stack(frame)[-8:]) if frame else "(the thread has ended)\n"
    if listener is not None and frame is not None:
        tell, _ = listener
        frames = reversed(traceback.extract_stack(frame)[-SHOWN_FRAMES:])
        tell(", called by ".join(f"{each.name} ({each.filename}:{each.lineno})" for each in frames))
    log.warning(
        "the event loop has been blocked for %.0f s, and deadlines cannot fire meanwhile. "
        "A worker must not block: use await, or asyncio.to_thread. It is blocked here:\n%s",
        seconds,
        stack,
    )
