"""Sessions that were handed out, each under an identifier that nobody can guess.

A lease ends when it is given back, when its lifetime is over, when nobody used it for a while, or
when its session is lost. A request in flight is use, whatever it asks. One that was never used ends
sooner: most likely its client was never told of it. A lease that ended never begins again: its
reason is remembered, and every later request is told.
"""

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

from rollgym.servers.exchange import RefusedRequestError
from webgym.browser.bookkeeping.calls import Calls
from webgym.browser.bookkeeping.endings import (
    MEMORY,
    Endings,
    lost_message,
    no_such_session,
    shown_id,
)
from webgym.browser.contract.errors import SessionLostError

S = TypeVar("S")
Clock = Callable[[], float]
MOST_CALLS = 32
"""In flight for one session: it carries out one at a time, so more is a client gone wrong."""


class _Lease(Generic[S]):
    __slots__ = ("calls", "expires_at", "lifetime", "session", "used", "used_at")

    def __init__(self, session: S, lifetime: float, now: float) -> None:
        self.session = session
        self.lifetime = lifetime
        self.expires_at = now + lifetime
        self.used = False
        self.used_at = now
        self.calls = Calls()

    def use(self, now: float) -> None:
        self.used, self.used_at = True, now


class Leases(Generic[S]):
    """The leases of one node. The clock is in seconds."""

    def __init__(
        self,
        idle_seconds: float,
        first_use_seconds: float,
        clock: Clock,
        memory: int = MEMORY,
    ) -> None:
        self._idle_seconds = idle_seconds
        self._first_use_seconds = min(idle_seconds, first_use_seconds)
        self._clock = clock
        self._leases: dict[str, _Lease[S]] = {}
        self._endings = Endings(memory)

    def __len__(self) -> int:
        return len(self._leases)

    def __iter__(self) -> Iterator[str]:
        return iter(self._leases)

    def __contains__(self, instance_id: str) -> bool:
        return instance_id in self._leases

    def begin(self, instance_id: str, session: S, lifetime: float) -> None:
        """Raises SessionLostError where this was forbidden or the identifier was used before."""
        reason = self._endings.reason(instance_id)
        if instance_id in self._leases:
            reason = "another has its identifier"
        if reason is not None:
            raise SessionLostError(lost_message(instance_id, reason))
        self._leases[instance_id] = _Lease(session, lifetime, self._clock())

    def forbid(self, instance_id: str, reason: str) -> None:
        """Let no lease begin under this identifier."""
        self._endings.remember(instance_id, reason)

    @contextmanager
    def using(self, instance_id: str) -> Iterator[S]:
        """The session, for the time of a call. Raises SessionLostError, also in the middle.

        Raises RefusedRequestError where too many calls of this session are in flight.
        """
        lease = self._find(instance_id)
        if len(lease.calls) >= MOST_CALLS:
            raise RefusedRequestError(
                429,
                f"{MOST_CALLS} requests wait for session {shown_id(instance_id)}, which does "
                "one at a time",
            )
        lease.use(self._clock())
        try:
            with lease.calls.begin():
                yield lease.session
        finally:
            lease.use(self._clock())

    def seconds_left(self, instance_id: str) -> float:
        """Of its lifetime; this too is a sign of life. Raises SessionLostError."""
        lease = self._find(instance_id)
        lease.use(self._clock())
        return max(0.0, lease.expires_at - lease.used_at)

    def end(self, instance_id: str, reason: str) -> S | None:
        """End a lease and its calls in flight; its session, or None where it had ended before."""
        lease = self._leases.pop(instance_id, None)
        if lease is None:
            return None
        self._endings.remember(instance_id, reason)
        lease.calls.interrupt(SessionLostError(lost_message(instance_id, reason)))
        return lease.session

    def reason(self, instance_id: str) -> str | None:
        """Why it ended; None where it has not, or is not known."""
        return self._endings.reason(instance_id)

    def due(self) -> list[tuple[str, str]]:
        """The leases that are to end now, each with the reason."""
        now = self._clock()
        due: list[tuple[str, str]] = []
        for instance_id, lease in self._leases.items():
            if now >= lease.expires_at:
                due.append((instance_id, f"it expired after {lease.lifetime / 60:g} min"))
            elif not lease.used and now - lease.used_at >= self._first_use_seconds:
                within = f"{self._first_use_seconds:g} s"
                due.append((instance_id, f"nobody used it within {within} of its beginning"))
            elif not lease.calls and now - lease.used_at >= self._idle_seconds:
                due.append((instance_id, f"nobody used it for {self._idle_seconds:g} s"))
        return due

    def _find(self, instance_id: str) -> _Lease[S]:
        lease = self._leases.get(instance_id)
        if lease is not None:
            return lease
        reason = self._endings.reason(instance_id)
        raise SessionLostError(
            no_such_session(instance_id) if reason is None else lost_message(instance_id, reason)
        )


def new_instance_id() -> str:
    """192 random bits: to know one is to be allowed to use it."""
    return secrets.token_urlsafe(24)
