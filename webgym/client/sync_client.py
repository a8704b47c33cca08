"""The browser server's client without `await`, for notebooks and small programs.

`SyncBrowserClient` has the methods of `BrowserClient`. Its event loop runs in a thread, so it also
works where another loop is running, as in Jupyter.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager
from functools import wraps
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

import msgspec

from rollgym.closing import Closable
from webgym.browser.contract import commands
from webgym.browser.contract.answers import Lease, ServerInfo
from webgym.browser.contract.commands import InteractionMode
from webgym.browser.contract.errors import StepDeadlineError
from webgym.browser.contract.profile import SessionProfile
from webgym.browser.responses import SLACK
from webgym.client.client import BrowserClient, BrowserSession
from webgym.client.sessions import DEFAULT_URL, RELEASE_SECONDS

START_SECONDS = 10.0

P = ParamSpec("P")
T = TypeVar("T")


def _blocking(
    method: Callable[Concatenate[BrowserSession, P], Coroutine[Any, Any, T]],
) -> "Callable[Concatenate[SyncBrowserSession, P], T]":
    """The same method without `await`."""

    @wraps(method)
    def call(self: "SyncBrowserSession", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.client.wait_for(
            method(self.session, *args, **kwargs),
            msgspec.convert(kwargs.get("within"), float | None),
        )

    return call


class SyncBrowserClient(Closable):
    """`BrowserClient` for notebooks and small programs. Close it, or use it in a `with` block.

    Closing it releases the sessions that are still in use.
    """

    def __init__(
        self,
        url: str = DEFAULT_URL,
        token: str | None = None,
        deadline_seconds: float = 60.0,
    ) -> None:
        self._client = BrowserClient(url, token, deadline_seconds)
        self._sessions: set[BrowserSession] = set()
        ready: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._live(ready)), name="browser client", daemon=True
        )
        self._thread.start()
        self._loop, self._stop = ready.result(START_SECONDS)

    def close(self) -> None:
        """Release all sessions and end the thread. Closing it again does nothing."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join(RELEASE_SECONDS + 2 * SLACK)

    def get(
        self,
        lifetime_mins: float = 60,
        wait_seconds: float = 60,
        profile: SessionProfile | None = None,
    ) -> "SyncBrowserSession":
        """As `BrowserClient.get`."""
        acquiring = self._client.get(lifetime_mins, wait_seconds, profile)
        session = self.wait_for(acquiring, wait_seconds + self._client.caller.deadline_seconds)
        self._sessions.add(session)
        return SyncBrowserSession(self, session)

    @contextmanager
    def session(
        self,
        lifetime_mins: float = 60,
        wait_seconds: float = 60,
        profile: SessionProfile | None = None,
    ) -> "Iterator[SyncBrowserSession]":
        """As `BrowserClient.session`."""
        session = self.get(lifetime_mins, wait_seconds, profile)
        try:
            yield session
        finally:
            self.forget(session.session)
            if self._thread.is_alive():
                self.wait_for(self._client.release(session.session))

    def info(self) -> ServerInfo:
        return self.wait_for(self._client.info())

    def wait_for(self, call: Coroutine[Any, Any, T], within: float | None = None) -> T:
        """The result of a call of the asynchronous client. Ctrl-C cancels the call."""
        if not self._thread.is_alive():
            call.close()
            raise RuntimeError("the client is closed")
        seconds = self._client.caller.deadline_seconds if within is None else within
        future = asyncio.run_coroutine_threadsafe(call, self._loop)
        try:
            return future.result(seconds + commands.LONGEST_SLEEP + 2 * SLACK)
        except CancelledError as error:
            raise RuntimeError("the client was closed during the call") from error
        except TimeoutError as error:
            if future.done():
                raise
            raise StepDeadlineError("the client's thread does not respond") from error
        finally:
            future.cancel()

    def forget(self, session: BrowserSession) -> None:
        self._sessions.discard(session)

    async def _live(self, ready: "Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]]") -> None:
        async with self._client:
            stop = asyncio.Event()
            ready.set_result((asyncio.get_running_loop(), stop))
            await stop.wait()
            await asyncio.gather(*map(self._client.release, self._sessions))


class SyncBrowserSession:
    """`BrowserSession` without `await`. A notebook displays it as its screenshot."""

    def __init__(self, client: SyncBrowserClient, session: BrowserSession) -> None:
        self.client = client
        self.session = session

    @property
    def lease(self) -> Lease:
        return self.session.lease

    def reset(self) -> None:
        """Release the session."""
        self.client.wait_for(self.session.reset())
        self.client.forget(self.session)

    def show(self, mode: InteractionMode = "coordinates") -> "NotebookImage":
        """A screenshot that a notebook displays."""
        return NotebookImage(self.screenshot(mode).data)

    def _repr_png_(self) -> bytes:
        return self.screenshot().data

    step = _blocking(BrowserSession.step)
    execute = _blocking(BrowserSession.execute)
    screenshot = _blocking(BrowserSession.screenshot)
    probe = _blocking(BrowserSession.probe)
    metadata = _blocking(BrowserSession.metadata)
    recording = _blocking(BrowserSession.recording)
    storage_state = _blocking(BrowserSession.storage_state)
    get_webpage_text = _blocking(BrowserSession.get_webpage_text)
    get_page_metadata = _blocking(BrowserSession.get_page_metadata)
    get_interactive_rects = _blocking(BrowserSession.get_interactive_rects)
    get_accessibility_tree = _blocking(BrowserSession.get_accessibility_tree)
    get_screenshot_info = _blocking(BrowserSession.get_screenshot_info)
    visit_page = _blocking(BrowserSession.visit_page)
    back = _blocking(BrowserSession.back)
    click_coords = _blocking(BrowserSession.click_coords)
    click_id = _blocking(BrowserSession.click_id)
    fill_coords = _blocking(BrowserSession.fill_coords)
    fill_id = _blocking(BrowserSession.fill_id)
    select_option = _blocking(BrowserSession.select_option)
    drag_coords = _blocking(BrowserSession.drag_coords)
    drag_id = _blocking(BrowserSession.drag_id)
    select_option_coords = _blocking(BrowserSession.select_option_coords)
    slide_coords = _blocking(BrowserSession.slide_coords)
    slide_id = _blocking(BrowserSession.slide_id)
    upload_coords = _blocking(BrowserSession.upload_coords)
    upload_id = _blocking(BrowserSession.upload_id)
    switch_tab = _blocking(BrowserSession.switch_tab)
    close_tab = _blocking(BrowserSession.close_tab)
    hover_coords = _blocking(BrowserSession.hover_coords)
    hover_id = _blocking(BrowserSession.hover_id)
    hover_and_scroll_coords = _blocking(BrowserSession.hover_and_scroll_coords)
    scroll_id = _blocking(BrowserSession.scroll_id)
    page_down = _blocking(BrowserSession.page_down)
    page_up = _blocking(BrowserSession.page_up)
    keypress = _blocking(BrowserSession.keypress)
    sleep = _blocking(BrowserSession.sleep)
    tab_and_enter = _blocking(BrowserSession.tab_and_enter)


class NotebookImage(NamedTuple):
    """A picture as notebooks display it."""

    png: bytes

    def _repr_png_(self) -> bytes:
        return self.png
