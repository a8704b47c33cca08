"""Sessions: the state of a rollout at a resources server, between its calls.

The cookie holds an identifier and a signature made with a key that only this process has, so a
session can be neither guessed nor forged. The state stays in this process. A session ends when its
rollout is verified, when it is closed, or when it was unused for its lifetime; a running call
counts as use.

`SessionCloser` runs the author's code that releases the state of ended sessions. It is bounded, it
finishes also when the caller is cancelled, and its errors are logged: the rollout already has its
verdict or its failure, and neither depends on it.
"""

import asyncio
import hmac
import logging
import secrets
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from itertools import takewhile
from typing import Generic, TypeVar

from rollgym.records import EnvironmentSessionError
from rollgym.servers.context import after_the_deadline, current_rollout
from rollgym.servers.limit import Limit

S = TypeVar("S")
Clock = Callable[[], float]


CLOSE_TIMEOUT = 30.0
_LOGGER = logging.getLogger("rollgym.servers")


class _Session(Generic[S]):
    __slots__ = ("calls", "state", "used")

    def __init__(self, state: S, used: float) -> None:
        self.state = state
        self.used = used
        self.calls = 0


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
        self._open: OrderedDict[str, _Session[S]] = OrderedDict()

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
        self._open[identifier] = _Session(state, self._clock())
        return f"{identifier}.{self._signature(identifier)}"

    @contextmanager
    def using(self, cookie: str | None) -> Iterator[S]:
        """The state of a session, for the time of a call. Raises EnvironmentSessionError."""
        identifier = self._identifier(cookie)
        session = self._open.get(identifier)
        if session is None:
            raise EnvironmentSessionError(
                f"{self._server} does not have this session (any more): it was verified, or unused "
                f"for {self._lifetime:g} s, or the server was restarted"
            )
        session.calls += 1
        try:
            yield session.state
        finally:
            session.calls -= 1
            session.used = self._clock()
            if identifier in self._open:
                self._open.move_to_end(identifier)

    def close(self, cookie: str | None) -> S | None:
        """End a session; returns its state, or None for an unknown session."""
        if not cookie:
            return None
        session = self._open.pop(self._identifier(cookie), None)
        return session.state if session else None

    def expire(self) -> list[S]:
        """End the sessions that were unused for their lifetime; returns their states."""
        oldest = self._clock() - self._lifetime
        unused = takewhile(lambda entry: entry[1].used <= oldest, self._open.items())
        ended = [identifier for identifier, session in unused if not session.calls]
        return [self._open.pop(identifier).state for identifier in ended]

    def drain(self) -> list[S]:
        """End all sessions; returns their states."""
        states = [session.state for session in self._open.values()]
        self._open.clear()
        return states

    def _identifier(self, cookie: str | None) -> str:
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
        return identifier

    def _signature(self, identifier: str) -> str:
        return hmac.digest(self._key, _bytes(identifier), "sha256").hex()


def _bytes(text: str) -> bytes:
    """Encode a cookie, which may hold any characters."""
    return text.encode("utf-8", "surrogatepass")


class SessionCloser(Generic[S]):
    """Closes the sessions of one server; `close` is None where states need no closing."""

    def __init__(self, server: str, close: Callable[[S], Awaitable[None]] | None) -> None:
        self._server = server
        self._close = close
        self._tasks: set[asyncio.Task[None]] = set()

    async def close_all(self, states: list[S]) -> None:
        """Return when all are closed. A cancellation of the caller does not stop the closing."""
        close = self._close
        if close is None:
            return
        tasks = [asyncio.create_task(self._close_one(state, close)) for state in states]
        self._tasks.update(tasks)
        for task in tasks:
            task.add_done_callback(self._tasks.discard)
        await asyncio.shield(asyncio.gather(*tasks, return_exceptions=True))

    async def finish(self) -> None:
        """Wait for sessions that are still closing because their callers were cancelled."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _close_one(self, state: S, close: Callable[[S], Awaitable[None]]) -> None:
        try:
            with after_the_deadline(), Limit(CLOSE_TIMEOUT):
                await close(state)
        except Exception:
            about = {"server": self._server, "rollout": current_rollout()}
            _LOGGER.exception("a session of %s could not be closed", self._server, extra=about)
