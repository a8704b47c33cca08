"""An event loop in a thread of its own, for callers that wait: notebooks, small programs.

It also works where another loop is running in the caller's thread; that loop then stands still
until the call returns. A call carries the caller's context along, with its deadline.
"""

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import CancelledError, Future
from typing import Any, TypeVar

START_SECONDS = 10.0
STOP_SECONDS = 10.0

T = TypeVar("T")


class LoopThread:
    """The thread begins with the first call, and ends with `close`; another call begins anew."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None

    def call(self, work: Coroutine[Any, Any, T], within: float) -> T:
        """Its result, as soon as it is there. Raises what it raises, and TimeoutError after so
        many seconds. Ctrl-C cancels it.
        """
        future = asyncio.run_coroutine_threadsafe(work, self._running())
        try:
            return future.result(within)
        except CancelledError as error:
            raise RuntimeError(f"the thread of {self._name} was closed meanwhile") from error
        finally:
            future.cancel()

    def close(self, farewell: Coroutine[Any, Any, None] | None = None) -> None:
        """Cancel what is under way, run the farewell there, and end the thread.

        Does nothing where there is none.
        """
        with self._lock:
            thread, loop, stop = self._thread, self._loop, self._stop
            self._thread = self._loop = self._stop = None
        if thread is None or loop is None or stop is None or not thread.is_alive():
            if farewell is not None:
                farewell.close()
            return
        try:
            if farewell is not None:
                asyncio.run_coroutine_threadsafe(farewell, loop).result(STOP_SECONDS)
        finally:
            loop.call_soon_threadsafe(stop.set)
            thread.join(STOP_SECONDS)

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                ready: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()
                self._thread = threading.Thread(
                    target=lambda: asyncio.run(_live(ready)), name=self._name, daemon=True
                )
                self._thread.start()
                self._loop, self._stop = ready.result(START_SECONDS)
            return self._loop


async def _live(ready: "Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]]") -> None:
    stop = asyncio.Event()
    ready.set_result((asyncio.get_running_loop(), stop))
    # When this returns, asyncio.run cancels whatever is still under way.
    await stop.wait()
