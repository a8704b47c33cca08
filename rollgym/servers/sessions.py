"""Sessions: the state of a rollout at a resources server, between its calls.

The cookie holds an identifier and a signature made with a key that only this process has, so a
session can be neither guessed nor forged. The state stays in this process. A session ends when its
rollout is verified, when it is closed, or when it was unused for its lifetime; a running call
counts as use.

*Order.* One call at a time uses the state of a session. The others wait in the order in which they
arrived, each until its own caller gives up; the number of waiting calls is bounded.

*Failures.* A session in which a tool broke gets no verdict, also where the agent does not know our
failures and goes on: the model may have missed a result, or read an error that was not for it.

`SessionCloser` runs the author's code that releases the state of ended sessions, when no call uses
it any more. It is bounded, it finishes also when the caller is cancelled, and its errors are
logged: the rollout already has its verdict or its failure, and neither depends on it.
"""

import asyncio
import hmac
import logging
import secrets
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from itertools import takewhile
from typing import Generic, TypeVar

from rollgym.records import EnvironmentSessionError, Failure, error_of
from rollgym.servers.context import after_the_deadline, current_rollout
from rollgym.servers.limit import Limit

S = TypeVar("S")
Clock = Callable[[], float]


CLOSE_TIMEOUT = 30.0
MOST_CALLS = 256
"""The most calls that may use a session or wait for it at the same time."""
_LOGGER = logging.getLogger("rollgym.servers")


class Session(Generic[S]):
    """A state, and the queue of the calls that want to use it."""

    __slots__ = ("calls", "failure", "state", "turn", "used")

    def __init__(self, state: S, used: float = 0.0) -> None:
        self.state = state
        self.used = used
        self.calls = 0
        self.failure: Failure | None = None
        self.turn = asyncio.Lock()  # wakes waiting calls in their order


class Sessions(Generic[S]):
    """The open sessions of one server, the longest unused first."""

    def __init__(
        self, server: str, lifetime: float, limit: int, clock: Clock = time.monotonic
    ) -> None:
        self._server = server
        self._lifetime = lifetime
        self._limit = limit
        self._clock = clock
        self._key = secrets.token_bytes(32)
        self._open: OrderedDict[str, Session[S]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._open)

    @property
    def full(self) -> bool:
        return len(self._open) >= self._limit

    def check_capacity(self) -> None:
        """Raises EnvironmentSessionError when the limit is reached; `expire` may free sessions."""
        if self.full:
            raise EnvironmentSessionError(
                f"{self._server} has {self._limit} open sessions, which is its limit; close "
                "sessions that are not verified, or raise max_sessions in its configuration"
            )

    def open(self, state: S) -> str:
        """Open a session; returns its cookie. Raises EnvironmentSessionError at the limit."""
        self.check_capacity()
        identifier = secrets.token_hex(16)
        cookie = f"{identifier}.{self._signature(identifier)}"
        self._open[cookie] = Session(state, self._clock())
        return cookie

    def is_open(self, cookie: str) -> bool:
        return cookie in self._open

    def using(self, cookie: str | None) -> "SessionUse[S]":
        """The state of a session, for the time of a call, after the calls before it."""
        return SessionUse(self, cookie or "")

    async def enter(self, cookie: str) -> Session[S]:
        """Wait until no other call uses the session. Raises EnvironmentSessionError."""
        session = self._find(cookie)
        if session.calls >= MOST_CALLS:
            raise EnvironmentSessionError(
                f"{session.calls} calls of one session of {self._server} wait for each other, "
                "which is the limit; send fewer calls at the same time"
            )
        session.calls += 1
        try:
            await session.turn.acquire()
        except BaseException:
            session.calls -= 1
            raise
        if cookie not in self._open:  # it was closed while this call waited
            self.leave(cookie, session)
            self._find(cookie)
        return session

    def leave(self, cookie: str, session: Session[S]) -> None:
        """End the call of `enter`."""
        session.turn.release()
        session.calls -= 1
        session.used = self._clock()
        if cookie in self._open:
            self._open.move_to_end(cookie)

    def fail(self, cookie: str, failure: Failure) -> None:
        """Record that a call failed for reasons that are not the model's."""
        session = self._open.get(cookie)
        if session is not None and session.failure is None:
            session.failure = failure

    def check_failure(self, cookie: str) -> None:
        """Raises the error of a call of this session that failed."""
        session = self._open.get(cookie)
        if session is not None and session.failure is not None:
            raise error_of(session.failure)

    def close(self, cookie: str | None) -> Session[S] | None:
        """End a session and return it; None for a session that has ended, or without a cookie.

        Raises EnvironmentSessionError for a cookie that this server did not issue.
        """
        if not cookie:
            return None
        session = self._open.pop(cookie, None)
        if session is None:
            self._check(cookie)
        return session

    def expire(self) -> list[Session[S]]:
        """End the sessions that were unused for their lifetime, and return them."""
        oldest = self._clock() - self._lifetime
        unused = takewhile(lambda entry: entry[1].used <= oldest, self._open.items())
        ended = [cookie for cookie, session in unused if not session.calls]
        return [self._open.pop(cookie) for cookie in ended]

    def drain(self) -> list[Session[S]]:
        """End all sessions, and return them."""
        sessions = list(self._open.values())
        self._open.clear()
        return sessions

    def _find(self, cookie: str) -> Session[S]:
        session = self._open.get(cookie)
        if session is None:
            self._check(cookie)
            raise EnvironmentSessionError(
                f"{self._server} does not have this session (any more): it was verified, or unused "
                f"for {self._lifetime:g} s, or the server was restarted"
            )
        return session

    def _check(self, cookie: str) -> None:
        """Check that this server issued the cookie. Raises EnvironmentSessionError."""
        if not cookie:
            raise EnvironmentSessionError(
                f"{self._server} was called without a session cookie; call /seed_session first, "
                "and send the cookie that it sets"
            )
        identifier, _, signature = cookie.partition(".")
        if not hmac.compare_digest(_bytes(signature), _bytes(self._signature(identifier))):
            raise EnvironmentSessionError(
                f"{self._server} did not issue this session cookie: it was changed, or the server "
                "was restarted"
            )

    def _signature(self, identifier: str) -> str:
        return hmac.digest(self._key, _bytes(identifier), "sha256").hex()


def _bytes(text: str) -> bytes:
    """Encode a cookie, which may hold any characters."""
    return text.encode("utf-8", "surrogatepass")


class SessionUse(Generic[S]):
    """One call's use of a session: `async with sessions.using(cookie) as state`."""

    __slots__ = ("_cookie", "_session", "_sessions")

    def __init__(self, sessions: Sessions[S], cookie: str) -> None:
        self._sessions = sessions
        self._cookie = cookie
        self._session: Session[S] | None = None

    async def __aenter__(self) -> S:
        self._session = await self._sessions.enter(self._cookie)
        return self._session.state

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            self._sessions.leave(self._cookie, self._session)


class SessionCloser(Generic[S]):
    """Closes the sessions of one server; `close` is None where states need no closing."""

    def __init__(self, server: str, close: Callable[[S], Awaitable[None]] | None) -> None:
        self._server = server
        self._close = close
        self._tasks: set[asyncio.Task[None]] = set()

    async def close_all(self, sessions: list[Session[S]]) -> None:
        """Return when all are closed. A cancellation of the caller does not stop the closing."""
        close = self._close
        if close is None:
            return
        tasks = [asyncio.create_task(self._close_one(session, close)) for session in sessions]
        self._tasks.update(tasks)
        for task in tasks:
            task.add_done_callback(self._tasks.discard)
        await asyncio.shield(asyncio.gather(*tasks, return_exceptions=True))

    async def finish(self) -> None:
        """Wait for sessions that are still closing because their callers were cancelled."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _close_one(self, session: Session[S], close: Callable[[S], Awaitable[None]]) -> None:
        about = {"server": self._server, "rollout": current_rollout()}
        with after_the_deadline():
            try:
                with Limit(CLOSE_TIMEOUT):
                    await session.turn.acquire()
            except TimeoutError:  # rather than never release what the state holds
                message = "a session of %s is closed although a call still uses it"
                _LOGGER.warning(message, self._server, extra=about)
            try:
                with Limit(CLOSE_TIMEOUT):
                    await close(session.state)
            except Exception:
                _LOGGER.exception("a session of %s could not be closed", self._server, extra=about)
