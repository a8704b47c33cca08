"""A pool of browser sessions on few Chromium processes.

*A browser that ends* takes its sessions along. Each is told why at once, before the process is even
reaped, and its room is free again. Sessions on other browsers do not notice.

*Closing* a session goes on when the caller leaves, and it is bounded. A browser whose session could
not be closed is recycled, since something of that session is still in it; so is one on which
several in a row could not be opened.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Generic, Protocol, Self, TypeVar

from rollgym.servers.limit import Limit
from webgym.browser.chromium.connection import CallError, ConnectionClosedError
from webgym.browser.chromium.executable import Browser
from webgym.browser.chromium.targets import Targets
from webgym.browser.contract.errors import NoSessionError, SessionLostError
from webgym.browser.pool.fleet import Fleet
from webgym.browser.pool.info import PoolEvent, PoolInfo
from webgym.browser.pool.member import Ending, Member
from webgym.browser.pool.settings import PoolSettings
from webgym.browser.tasks import Tasks

OPEN_ATTEMPTS = 3
"""On so many browsers a session is tried, one after the other, if they die meanwhile."""
FAIR_PATIENCE = 2.0
"""A browser that opens no session within less is not to blame."""
CLOSE_TIMEOUT = 2.0
"""For the sessions, once their browsers are gone."""

_LOGGER = logging.getLogger(__name__)


class Channel(Protocol):
    """A session's way into the network."""

    async def close(self) -> None: ...


class Session(Protocol):
    """What the pool needs of a session. `close` also closes its channel."""

    def lose(self, reason: str) -> None: ...

    async def close(self) -> None: ...


C = TypeVar("C", bound=Channel)
C_co = TypeVar("C_co", bound=Channel, covariant=True)
S = TypeVar("S", bound=Session)


class Guard(Protocol[C_co]):
    """Where channels come from."""

    async def open_channel(self) -> C_co: ...


class BrowserPool(Generic[C, S]):
    """Sessions on few browsers: `async with` starts the first browser, and ends all.

    Args:
        browser: What to run.
        guard: Gives each session its channel.
        open_session: Makes a session on a browser; where it fails it leaves nothing behind.
        settings: The bounds.
        on_event: Hears of what happens to the browsers; it is logged in any case.
    """

    def __init__(
        self,
        browser: Browser,
        guard: Guard[C],
        open_session: Callable[[Targets, C, float], Awaitable[S]],
        settings: PoolSettings | None = None,
        on_event: Callable[[PoolEvent], None] | None = None,
    ) -> None:
        self.settings = settings or PoolSettings()
        self._guard = guard
        self._make_session = open_session
        self._listener = on_event
        self._homes: dict[S, Member] = {}
        self._closings: dict[S, asyncio.Task[None]] = {}
        self._tasks = Tasks()
        self._fleet = Fleet(browser, self.settings, self._lose, self._tell)
        self._ending: asyncio.Future[None] | None = None

    @property
    def capacity(self) -> int:
        return self.settings.capacity

    async def __aenter__(self) -> Self:
        """Raises LaunchError where no browser can be started."""
        try:
            await self._fleet.start()
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
        """End everything, within about five seconds, also where browsers hang.

        Raises the error that broke the pool, if one did.
        """
        if self._ending is None:
            self._ending = asyncio.ensure_future(self._close())
        await asyncio.shield(self._ending)

    async def open_session(self, deadline: float) -> S:
        """A new session on the browser with the fewest. Raises NoSessionError.

        Where the caller is cancelled, what was begun is finished and then closed.
        """
        for _ in range(OPEN_ATTEMPTS):
            member = await self._fleet.place(deadline)
            opening = self._tasks.start(self._open_on(member, deadline))
            try:
                return await asyncio.shield(opening)
            except (ConnectionClosedError, SessionLostError) as error:
                lost: Exception = error
            except (TimeoutError, CallError, OSError) as error:
                about = f"{type(error).__name__}: {error}".rstrip(": ")
                pid = member.chromium.pid
                raise NoSessionError(f"browser {pid} opened no session: {about}") from error
            except asyncio.CancelledError:
                if opening.cancelled():
                    raise NoSessionError("the browser pool is closed") from None
                opening.add_done_callback(self._drop)
                raise
        raise NoSessionError(f"{OPEN_ATTEMPTS} browsers ended while they opened it") from lost

    async def close_session(self, session: S) -> None:
        """Close a session; one that is closed already is fine. Goes on when it is cancelled."""
        closing = self._closings.get(session)
        if session in self._homes:
            closing = self._begin_closing(session)
        if closing is not None:
            await asyncio.shield(closing)

    def info(self) -> PoolInfo:
        return self._fleet.info()

    async def _open_on(self, member: Member, deadline: float) -> S:
        """Takes over a place on this browser."""
        patience = deadline - asyncio.get_running_loop().time()
        try:
            with Limit(max(0.0, patience)):
                session = await self._opened(member.chromium.targets, deadline)
        except BaseException as error:
            self._fleet.release(member)
            if isinstance(error, CallError) or (
                isinstance(error, TimeoutError) and patience >= FAIR_PATIENCE
            ):
                member.failed_to_open()
            raise
        self._homes[session] = member
        member.opened_session()
        if member.ended.done():
            why = member.ended.result().detail
            session.lose(why)
            self._begin_closing(session)
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
        """Nobody waits for what was opened."""
        if not opening.cancelled() and opening.exception() is None:
            session = opening.result()
            if session in self._homes:
                self._begin_closing(session)

    def _lose(self, member: Member, ending: Ending) -> None:
        sessions = [session for session, home in self._homes.items() if home is member]
        for session in sessions:
            session.lose(ending.detail)
        for session in sessions:
            self._begin_closing(session)
        self._tell(PoolEvent("ended", ending.detail, member.chromium.pid, len(sessions)))

    def _begin_closing(self, session: S) -> "asyncio.Task[None]":
        member = self._homes.pop(session)
        closing = self._tasks.start(self._close_on(member, session))
        self._closings[session] = closing
        closing.add_done_callback(lambda _: self._closings.pop(session, None))
        return closing

    async def _close_on(self, member: Member, session: S) -> None:
        try:
            with Limit(self.settings.close_patience):
                await session.close()
        except Exception:
            member.failing = True
            _LOGGER.exception("a session on browser %d could not be closed", member.chromium.pid)
        finally:
            self._fleet.release(member)

    async def _close_channel(self, channel: C) -> None:
        try:
            with Limit(self.settings.close_patience):
                await channel.close()
        except Exception:
            _LOGGER.exception("the channel of a session that was not opened could not be closed")

    async def _close(self) -> None:
        try:
            await self._fleet.close()
        finally:
            await self._tasks.finish(CLOSE_TIMEOUT)

    def _tell(self, event: PoolEvent) -> None:
        quiet = event.kind == "started" or (event.kind == "ended" and not event.sessions_lost)
        lost = f"; {event.sessions_lost} sessions lost" if event.sessions_lost else ""
        _LOGGER.log(logging.INFO if quiet else logging.WARNING, "%s%s", event.detail, lost)
        if self._listener is not None:
            try:
                self._listener(event)
            except Exception:
                _LOGGER.exception("a listener to the events of the pool failed")
