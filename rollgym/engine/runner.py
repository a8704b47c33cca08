"""Running a coroutine to its end on the fastest loop there is, and always getting back.

`asyncio.run` waits without bound for tasks that ignore their cancellation. This waits a while.
"""

import asyncio
import gc
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from rollgym.engine.watchdog import watched

T = TypeVar("T")
CLOSING_PATIENCE = 5.0


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run `main`; on return no task of its is waited for longer than a few seconds."""
    loop = _new_loop()
    try:
        asyncio.set_event_loop(loop)
        with watched(loop), _calm_garbage_collection():
            return loop.run_until_complete(main)
    finally:
        # Cancelled from outside the loop, so that none runs another step of its own first.
        leftover = asyncio.all_tasks(loop)
        for task in leftover:
            task.cancel()
        try:
            loop.run_until_complete(_wind_down(leftover))
        finally:
            asyncio.set_event_loop(None)
            loop.close()


@contextmanager
def _calm_garbage_collection() -> Iterator[None]:
    """Look for cycles less often, and not among what was there before.

    A collection makes and drops many small objects that hold no cycles, and every search through
    all the imported modules because of them is time lost: a tenth of the whole.
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
        await asyncio.wait(leftover, timeout=CLOSING_PATIENCE)
    await asyncio.get_running_loop().shutdown_asyncgens()
