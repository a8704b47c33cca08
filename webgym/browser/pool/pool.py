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

from rollgym.servers.limit import Limit
from webgym.browser.calls import BackgroundTasks
from webgym.browser.chromium.connection import CallError, ConnectionClosedError
from webgym.browser.chromium.executable import Browser
from webgym.browser.chromium.targets import Targets
from webgym.browser.contract.errors import NoSessionError, SessionLostError
from webgym.browser.contract.profile import DEFAULT_PROFILE, SessionProfile
from webgym.browser.guard.guard import NetworkGuard, SessionChannel
from webgym.browser.pool.browser import BrowserEnd, PooledBrowser
from webgym.browser.pool.supervisor import BrowserSupervisor
from webgym.browser.session import ChromiumSession
from webgym.browser.settings import BrowserSettings

OPEN_ATTEMPTS = 3
"""How many browsers are tried one after the other, if they die while they open the session."""
FAIR_OPEN_SECONDS = 2.0
"""A browser that opened no session within a shorter time is not counted as failing."""
CLOSE_TIMEOUT = 2.0
"""How long sessions may take to close after their browsers are gone."""

_LOGGER = logging.getLogger(__name__)


class BrowserPool:
    """Sessions on a few browsers. `async with` starts the first browser, and ends all of them.

    `guard` opens the network channel of each session, and `open_session` a session on a browser; if
    that fails, it closes the channel.
    """

    def __init__(
        self,
        browser: Browser,
        guard: NetworkGuard,
        settings: BrowserSettings,
        open_session: Callable[
            [Targets, SessionChannel, float, SessionProfile], Awaitable[ChromiumSession]
        ] = ChromiumSession.open,
    ) -> None:
        self.settings = settings
        self._guard = guard
        self._make_session = open_session
        self._browser_of: dict[ChromiumSession, PooledBrowser] = {}
        self._closings: dict[ChromiumSession, asyncio.Task[None]] = {}
        self._tasks = BackgroundTasks()
        self._supervisor = BrowserSupervisor(browser, self.settings, self._lose)
        self._ending: asyncio.Future[None] | None = None

    @property
    def capacity(self) -> int:
        return self.settings.sessions

    async def __aenter__(self) -> "BrowserPool":
        """Raises LaunchError if no browser can be started."""
        try:
            await self._supervisor.start()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """End everything within about five seconds, even if browsers hang.

        Raises the error that broke the pool, if there was one.
        """
        if self._ending is None:
            self._ending = asyncio.ensure_future(self._close())
        await asyncio.shield(self._ending)

    async def open_session(
        self, deadline: float, profile: SessionProfile = DEFAULT_PROFILE
    ) -> ChromiumSession:
        """A new session on the browser with the fewest sessions.

        Raises NoSessionError, and BadRequestError if the profile cannot be used. If the caller is
        cancelled, the session is still opened, and then closed.
        """
        for _ in range(OPEN_ATTEMPTS):
            browser = await self._supervisor.acquire(deadline)
            opening = self._tasks.start(self._open_on(browser, deadline, profile))
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

    async def close_session(self, session: ChromiumSession) -> None:
        """Close a session, unless it is closed already. Continues when the caller is cancelled."""
        closing = self._closings.get(session)
        if session in self._browser_of:
            closing = self._start_closing(session)
        if closing is not None:
            await asyncio.shield(closing)

    async def _open_on(
        self, browser: PooledBrowser, deadline: float, profile: SessionProfile
    ) -> ChromiumSession:
        """Uses the slot that was acquired on this browser."""
        seconds = deadline - asyncio.get_running_loop().time()
        try:
            with Limit(max(0.0, seconds)):
                channel = await self._guard.open_channel(profile.proxy)
                session = await self._make_session(
                    browser.chromium.targets, channel, deadline, profile
                )
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

    def _drop(self, opening: "asyncio.Task[ChromiumSession]") -> None:
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
        if sessions:
            _LOGGER.warning("%s; %d sessions lost", end.detail, len(sessions))
        else:
            _LOGGER.info("%s", end.detail)

    def _start_closing(self, session: ChromiumSession) -> "asyncio.Task[None]":
        browser = self._browser_of.pop(session)
        closing = self._tasks.start(self._close_on(browser, session))
        self._closings[session] = closing
        closing.add_done_callback(lambda _: self._closings.pop(session, None))
        return closing

    async def _close_on(self, browser: PooledBrowser, session: ChromiumSession) -> None:
        try:
            with Limit(self.settings.close_timeout):
                await session.close()
        except Exception:
            browser.failing = True
            _LOGGER.exception("a session on browser %d could not be closed", browser.chromium.pid)
        finally:
            self._supervisor.release(browser)

    async def _close(self) -> None:
        try:
            await self._supervisor.close()
        finally:
            await self._tasks.finish(CLOSE_TIMEOUT)
