"""Sessions: what a resources server remembers of a rollout between its calls.

The cookie holds an identifier and a signature made with a key that only this process has, so a
session can be neither guessed nor made up. The state stays here. A session ends when its rollout is
verified, when it is closed, or when nobody used it for the length of its lifetime; a call that is
still running uses it.
"""

import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import takewhile
from typing import Generic, TypeVar

from rollgym.records import EnvironmentSessionError

S = TypeVar("S")
Clock = Callable[[], float]


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

    def check_room(self) -> None:
        """Raises EnvironmentSessionError when all sessions are taken; `expire` may make room."""
        if self.full:
            raise EnvironmentSessionError(
                f"{self._server} has {self._limit} open sessions, which is its limit: close "
                "sessions that are not verified, or raise max_sessions in its configuration"
            )

    def open(self, state: S) -> str:
        """Begin a session; returns its cookie. Raises as `check_room` does."""
        self.check_room()
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
                f"{self._server} does not know this session (any more): it was verified, or nobody "
                f"used it for {self._lifetime:g} s, or the server was started anew"
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
        """End a session; its state, or None when there was none."""
        if not cookie:
            return None
        session = self._open.pop(self._identifier(cookie), None)
        return session.state if session else None

    def expire(self) -> list[S]:
        """End the sessions that nobody used for too long; their states."""
        oldest = self._clock() - self._lifetime
        unused = takewhile(lambda entry: entry[1].used <= oldest, self._open.items())
        ended = [identifier for identifier, session in unused if not session.calls]
        return [self._open.pop(identifier).state for identifier in ended]

    def drain(self) -> list[S]:
        """End them all; their states."""
        states = [session.state for session in self._open.values()]
        self._open.clear()
        return states

    def _identifier(self, cookie: str | None) -> str:
        if not cookie:
            raise EnvironmentSessionError(
                f"{self._server} was called without a session cookie: call /seed_session first, "
                "and send the cookie that it sets"
            )
        identifier, _, signature = cookie.partition(".")
        if not hmac.compare_digest(_bytes(signature), _bytes(self._signature(identifier))):
            raise EnvironmentSessionError(
                f"{self._server} did not make this session cookie: it was changed on its way, or "
                "the server was started anew"
            )
        return identifier

    def _signature(self, identifier: str) -> str:
        return hmac.digest(self._key, _bytes(identifier), "sha256").hex()


def _bytes(text: str) -> bytes:
    """Also of what came as no text at all: a cookie may hold anything."""
    return text.encode("utf-8", "surrogatepass")
