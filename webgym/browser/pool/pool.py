"""A pool of browser sessions on a few Chromium processes.

*When a browser ends*, its sessions end. Each session gets the reason at once, before the process is
even reaped, and its slot is free again. Sessions on other browsers do not notice.

*Closing* a session is bounded and continues when the caller is cancelled. A browser is recycled if
one of its sessions could not be closed, because parts of that session are still in it, and if
several sessions in a row could not be opened.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Generic, Protocol, Self, TypeVar

from rollgym.servers.limit import Limit
from webgym.browser.calls import BackgroundTasks
from webgym.browser.chromium.connection import CallError, ConnectionClosedError
from webgym.browser.chromium.executable import Browser
from webgym.browser.chromium.targets import Targets
from webgym.browser.contract.errors import NoSessionError, SessionLostError
from webgym.browser.pool.browser import BrowserEnd, PooledBrowser
from webgym.browser.pool.decisions import BrowserPoolSettings, PoolEvent, PoolInfo
from webgym.browser.pool.supervisor import BrowserSupervisor

OPEN_ATTEMPTS = 3
"""How many browsers are tried one after the other, if they die while they open the session."""
FAIR_OPEN_SECONDS = 2.0
"""A browser that opened no session within a shorter time is not counted as failing."""
CLOSE_TIMEOUT = 2.0
"""How long sessions may take to close after their browsers are gone."""

_LOGGER = logging.getLogger(__name__)


class ClosableChannel(Protocol):
    """The network channel of a session."""

    async def close(self) -> None: ...


class PooledSession(Protocol):
    """What the pool needs of a session. `close` also closes the channel."""

    def lose(self, reason: str) -> None: ...

    async def close(self) -> None: ...


C = TypeVar("C", bound=ClosableChannel)
C_co = TypeVar("C_co", bound=ClosableChannel, covariant=True)
S = TypeVar("S", bound=PooledSession)


class ChannelSource(Protocol[C_co]):
    """Opens a network channel for each session."""

    async def open_channel(self) -> C_co: ...


class BrowserPool(Generic[C, S]):
    """Sessions on a few browsers. `async with` starts the first browser, and ends all of them.

    Args:
        browser: The program to run.
        guard: Opens the network channel of each session.
        open_session: Opens a session on a browser. If it fails, it leaves nothing behind.
        settings: The limits of the pool.
        on_event: Called for every event. Events are logged in any case.
    """

    def __init__(
        self,
        browser: Browser,
        guard: ChannelSource[C],
        open_session: Callable[[Targets, C, float], Awaitable[S]],
        settings: BrowserPoolSettings | None = None,
        on_event: Callable[[PoolEvent], None] | None = None,
    ) -> None:
        self.settings = settings or BrowserPoolSettings()
        self._guard = guard
        self._make_session = open_session
        self._listener = on_event
        self._browser_of: dict[S, PooledBrowser] = {}
        self._closings: dict[S, asyncio.Task[None]] = {}
        self._tasks = BackgroundTasks()
        self._supervisor = BrowserSupervisor(browser, self.settings, self._lose, self._report)
        self._ending: asyncio.Future[None] | None = None

    @property
    def capacity(self) -> int:
        return self.settings.capacity

    async def __aenter__(self) -> Self:
        """Raises LaunchError if no browser can be started."""
        try:
            await self._supervisor.start()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End everything within about five seconds, even if browsers hang.

        Raises the error that broke the pool, if there was one.
        """
        if self._ending is None:
            self._ending = asyncio.ensure_future(self._close())
        await asyncio.shield(self._ending)

    async def open_session(self, deadline: float) -> S:
        """A new session on the browser with the fewest sessions. Raises NoSessionError.

        If the caller is cancelled, the session is still opened, and then closed.
        """
        for _ in range(OPEN_ATTEMPTS):
            browser = await self._supervisor.acquire(deadline)
            opening = self._tasks.start(self._open_on(browser, deadline))
            try:
                return await asyncio.shield(opening)
            except (ConnectionClosedError, SessionLostError) as error:
                lost: Exception = error
            except (TimeoutError, CallError, OSError) as error:
                about = f"{type(error).__name__}: {error}".rstrip(": ")
                pid = browser.chromium.pid
                raise NoSessionError(f"browser {pid} could not open a session: {about}") from error
            except asyncio.CancelledError:
                if opening.cancelled():
                    raise NoSessionError("the browser pool is closed") from None
                opening.add_done_callback(self._drop)
                raise
        raise NoSessionError(
            f"{OPEN_ATTEMPTS} browsers ended while they opened a session"
        ) from lost

    async def close_session(self, session: S) -> None:
        """Close a session, unless it is closed already. Continues when the caller is cancelled."""
        closing = self._closings.get(session)
        if session in self._browser_of:
            closing = self._start_closing(session)
        if closing is not None:
            await asyncio.shield(closing)

    def info(self) -> PoolInfo:
        return self._supervisor.info()

    async def _open_on(self, browser: PooledBrowser, deadline: float) -> S:
        """Uses the slot that was acquired on this browser."""
        seconds = deadline - asyncio.get_running_loop().time()
        try:
            with Limit(max(0.0, seconds)):
                session = await self._opened(browser.chromium.targets, deadline)
        except BaseException as error:
            self._supervisor.release(browser)
            if isinstance(error, CallError) or (
                isinstance(error, TimeoutError) and seconds >= FAIR_OPEN_SECONDS
            ):
                browser.failed_to_open()
            raise
        self._browser_of[session] = browser
        browser.opened_session()
        if browser.ended.done():
            why = browser.ended.result().detail
            session.lose(why)
            self._start_closing(session)
            raise SessionLostError(why)
        return session

    async def _opened(self, targets: Targets, deadline: float) -> S:
        channel = await self._guard.open_channel()
        try:
            return await self._make_session(targets, channel, deadline)
        except BaseException:
            self._tasks.start(self._close_channel(channel))
            raise

    def _drop(self, opening: "asyncio.Task[S]") -> None:
        """Close a session whose caller was cancelled."""
        if not opening.cancelled() and opening.exception() is None:
            session = opening.result()
            if session in self._browser_of:
                self._start_closing(session)

    def _lose(self, browser: PooledBrowser, end: BrowserEnd) -> None:
        sessions = [
            session for session, its_browser in self._browser_of.items() if its_browser is browser
        ]
        for session in sessions:
            session.lose(end.detail)
        for session in sessions:
            self._start_closing(session)
        self._report(PoolEvent("ended", end.detail, browser.chromium.pid, len(sessions)))

    def _start_closing(self, session: S) -> "asyncio.Task[None]":
        browser = self._browser_of.pop(session)
        closing = self._tasks.start(self._close_on(browser, session))
        self._closings[session] = closing
        closing.add_done_callback(lambda _: self._closings.pop(session, None))
        return closing

    async def _close_on(self, browser: PooledBrowser, session: S) -> None:
        try:
            with Limit(self.settings.close_timeout):
                await session.close()
        except Exception:
            browser.failing = True
            _LOGGER.exception("a session on browser %d could not be closed", browser.chromium.pid)
        finally:
            self._supervisor.release(browser)

    async def _close_channel(self, channel: C) -> None:
        try:
            with Limit(self.settings.close_timeout):
                await channel.close()
        except Exception:
            _LOGGER.exception(
                "the network channel of a session that failed to open could not be closed"
            )

    async def _close(self) -> None:
        try:
            await self._supervisor.close()
        finally:
            await self._tasks.finish(CLOSE_TIMEOUT)

    def _report(self, event: PoolEvent) -> None:
        quiet = event.kind == "started" or (event.kind == "ended" and not event.sessions_lost)
        lost = f"; {event.sessions_lost} sessions lost" if event.sessions_lost else ""
        _LOGGER.log(logging.INFO if quiet else logging.WARNING, "%s%s", event.detail, lost)
        if self._listener is not None:
            try:
                self._listener(event)
            except Exception:
                _LOGGER.exception("the `on_event` function of the pool failed")
