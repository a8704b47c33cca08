"""A node: a pool of browsers whose sessions are leased.

Requests never wait here for a free slot: they get a session that is opened now, or are rejected.
Opening continues when the client disconnects, and a session without a client is closed. Every
session that was opened is closed exactly once, by a task that the node owns; until then it uses a
slot.
"""

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable
from typing import TypeVar

from rollgym.records import RolloutError
from rollgym.servers.limit import Limit
from webgym.browser.calls import BackgroundTasks
from webgym.browser.contract.errors import (
    BadRequestError,
    NoSessionError,
    SessionLostError,
    StepDeadlineError,
)
from webgym.browser.contract.profile import DEFAULT_PROFILE, SessionProfile
from webgym.browser.leases import Leases, new_instance_id, shown_id, unknown_session
from webgym.browser.pool.pool import BrowserPool
from webgym.browser.session import ChromiumSession

CHECK_INTERVAL = 0.5
GRACE = 2.0
"""How long after its deadline a session may still answer."""
CLOSE_SECONDS = 15.0
DRAIN_SECONDS = 5.0
RELEASED = "it was released by /reset"
_STOPPING = "this node is stopping"
_LOGGER = logging.getLogger(__name__)


T = TypeVar("T")


class BrowserNode:
    """The sessions of one machine. `async with` starts and stops it.

    `changed` is called when a session was leased or a slot became free. `boot` differs at each
    start, so that sessions of an earlier start are recognised.
    """

    def __init__(self, pool: BrowserPool, idle_seconds: float, first_use_seconds: float) -> None:
        self._pool = pool
        self._leases: Leases[ChromiumSession] = Leases(
            idle_seconds, first_use_seconds, asyncio.get_running_loop().time
        )
        self._tasks = BackgroundTasks()
        self._opening: set[str] = set()
        self._closing = 0
        self._stopping = False
        self._checking: asyncio.Task[None] | None = None
        self.boot = secrets.token_hex(8)
        self.changed: Callable[[], None] = lambda: None

    async def __aenter__(self) -> "BrowserNode":
        self._checking = asyncio.ensure_future(self._end_due_leases())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.drain(DRAIN_SECONDS)

    @property
    def capacity(self) -> int:
        return self._pool.capacity

    @property
    def available(self) -> int:
        """How many sessions can be opened now."""
        used = len(self._leases) + len(self._opening) + self._closing
        return 0 if self._stopping else max(0, self._pool.capacity - used)

    @property
    def instances(self) -> tuple[str, ...]:
        return tuple(self._leases)

    async def get(
        self,
        lifetime: float,
        deadline: float,
        instance_id: str | None = None,
        profile: SessionProfile = DEFAULT_PROFILE,
    ) -> str:
        """Open a session and lease it for `lifetime` seconds; returns its identifier.

        Raises NoSessionError at once if no slot is free, and if none can be opened in time, and
        BadRequestError if the profile cannot be used. If the caller is cancelled, the session is
        closed.
        """
        if self._stopping:
            raise NoSessionError(_STOPPING)
        if self.available == 0:
            raise NoSessionError(f"all {self.capacity} sessions of this node are in use")
        instance_id = instance_id or new_instance_id()
        if instance_id in self._opening:
            raise BadRequestError("a session with this instance_id is being opened")
        self._opening.add(instance_id)
        self.changed()
        opening = self._tasks.start(self._open(instance_id, lifetime, deadline, profile))
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(self._drop)
            raise

    async def reset(self, instance_id: str) -> str | None:
        """Release a session. Waits a moment until it is closed.

        Returns a note if it had ended before. Raises SessionLostError if it is unknown.
        """
        closing = self._end(instance_id, RELEASED)
        if closing is not None:
            await asyncio.wait({closing}, timeout=DRAIN_SECONDS)
            return None
        if instance_id in self._opening:
            self._leases.forbid(instance_id, RELEASED)
            return "it was not open yet, and will not be opened"
        reason = self._leases.reason(instance_id)
        if reason is None:
            raise SessionLostError(unknown_session(instance_id))
        return f"it had ended before: {reason}"

    def end(self, instance_id: str, reason: str) -> None:
        """End a lease. Its session is closed in the background."""
        if self._end(instance_id, reason) is not None:
            _LOGGER.info("session %s was closed: %s", shown_id(instance_id), reason)

    def seconds_left(self, instance_id: str) -> float:
        """The rest of the lifetime of a session. Counts as use. Raises SessionLostError."""
        return self._leases.seconds_left(instance_id)

    def viewport(self, instance_id: str) -> dict[str, int]:
        """The width and height of a session's viewport. Raises SessionLostError."""
        with self._leases.using(instance_id) as session:
            size = session.viewport
        return {"width": size.width, "height": size.height}

    async def call(
        self, instance_id: str, deadline: float, work: Callable[[ChromiumSession], Awaitable[T]]
    ) -> T:
        """Do some work with a session.

        Raises what the work raises, SessionLostError and StepDeadlineError.
        """
        now = asyncio.get_running_loop().time()
        try:
            with self._leases.using(instance_id) as session, Limit(deadline - now + GRACE):
                return await work(session)
        except TimeoutError as error:
            raise StepDeadlineError(
                f"session {shown_id(instance_id)} did not answer within {deadline - now:.3g} s"
            ) from error
        except SessionLostError as error:
            self._end(instance_id, str(error))
            raise

    async def drain(self, seconds: float) -> None:
        """End all leases and wait this long until their sessions are closed."""
        self._stopping = True
        for instance_id in self.instances:
            self._end(instance_id, "its node was stopped")
        if self._checking is not None:
            self._checking.cancel()
            await asyncio.wait({self._checking}, timeout=1.0)
        await self._tasks.finish(seconds)

    async def _open(
        self, instance_id: str, lifetime: float, deadline: float, profile: SessionProfile
    ) -> str:
        try:
            session = await self._open_session(deadline, profile)
            try:
                self._lease(instance_id, session, lifetime)
            except (SessionLostError, NoSessionError):
                self._close(session)
                raise
        finally:
            # Only after the lease or the closing has begun: the slot stays in use all the time.
            self._opening.discard(instance_id)
            self.changed()
        session.lost.add_done_callback(lambda lost: self._lost(instance_id, lost))
        return instance_id

    def _lease(self, instance_id: str, session: ChromiumSession, lifetime: float) -> None:
        if self._stopping:
            raise NoSessionError(_STOPPING)
        self._leases.begin(instance_id, session, lifetime)

    async def _open_session(self, deadline: float, profile: SessionProfile) -> ChromiumSession:
        seconds = deadline - asyncio.get_running_loop().time()
        try:
            with Limit(seconds + GRACE):
                return await self._pool.open_session(deadline, profile)
        except (NoSessionError, BadRequestError):
            raise
        except TimeoutError as error:
            raise NoSessionError(f"no session could be opened within {seconds:.3g} s") from error
        except RolloutError as error:
            raise NoSessionError(f"no session could be opened: {error}") from error
        except Exception as error:
            _LOGGER.exception("a session could not be opened")
            raise NoSessionError(
                f"no session could be opened: {type(error).__name__}: {error}"
            ) from error

    def _drop(self, opening: "asyncio.Task[str]") -> None:
        """Close a session whose caller was cancelled."""
        if not opening.cancelled() and opening.exception() is None:
            self._end(opening.result(), "its client disconnected before it was opened")

    def _lost(self, instance_id: str, lost: "asyncio.Future[str]") -> None:
        # The pool logs the end of its browser once for all of its sessions.
        if not lost.cancelled():
            self._end(instance_id, lost.result())

    def _end(self, instance_id: str, reason: str) -> "asyncio.Task[None] | None":
        session = self._leases.end(instance_id, reason)
        return None if session is None else self._close(session)

    def _close(self, session: ChromiumSession) -> "asyncio.Task[None]":
        self._closing += 1
        return self._tasks.start(self._close_session(session))

    async def _close_session(self, session: ChromiumSession) -> None:
        try:
            with Limit(CLOSE_SECONDS):
                await self._pool.close_session(session)
        except Exception:
            _LOGGER.exception("a session could not be closed")
        finally:
            self._closing -= 1
            self.changed()

    async def _end_due_leases(self) -> None:
        while True:
            await asyncio.sleep(CHECK_INTERVAL)
            for instance_id, reason in self._leases.due():
                self.end(instance_id, reason)
