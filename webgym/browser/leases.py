"""Leased sessions, each under an identifier that cannot be guessed.

A lease ends when it is released, when its lifetime is over, when it was unused for a while, or when
its session is lost. A running request counts as use. A lease that was never used ends earlier: most
likely its client never got the answer. An ended lease never starts again: its reason is remembered
and reported to every later request.

The memory of ended sessions is bounded. Identifiers are never reused, so a remembered reason stays
true; for sessions that were forgotten, the answer is that they do not exist.
"""

import secrets
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

from rollgym.servers.exchange import RefusedRequestError
from webgym.browser.calls import InterruptibleCalls
from webgym.browser.contract.errors import SessionLostError

S = TypeVar("S")
Clock = Callable[[], float]
MOST_REMEMBERED = 10_000
SHOWN = 8
MOST_CALLS = 32
"""Running calls of one session. It carries out one at a time, so more means a broken client."""


class EndedSessions:
    """Why sessions ended, for the most recent ones."""

    def __init__(self, most: int = MOST_REMEMBERED) -> None:
        self._reasons: OrderedDict[str, str] = OrderedDict()
        self._most = most

    def __contains__(self, instance_id: str) -> bool:
        return instance_id in self._reasons

    def remember(self, instance_id: str, reason: str) -> None:
        """Remember the reason, unless one is known already."""
        if instance_id in self._reasons:
            return
        self._reasons[instance_id] = reason
        if len(self._reasons) > self._most:
            self._reasons.popitem(last=False)

    def reason(self, instance_id: str) -> str | None:
        return self._reasons.get(instance_id)


def lost_message(instance_id: str, reason: str) -> str:
    """The message for clients, with enough of the identifier to find it in a log."""
    return f"session {shown_id(instance_id)} is lost: {reason}"


def unknown_session(instance_id: str) -> str:
    return f"unknown session on this node: {instance_id[:60]!r}"


def shown_id(instance_id: str) -> str:
    return f"{instance_id[:SHOWN]}…" if len(instance_id) > SHOWN else instance_id


class _Lease(Generic[S]):
    __slots__ = ("calls", "expires_at", "lifetime", "session", "used", "used_at")

    def __init__(self, session: S, lifetime: float, now: float) -> None:
        self.session = session
        self.lifetime = lifetime
        self.expires_at = now + lifetime
        self.used = False
        self.used_at = now
        self.calls = InterruptibleCalls()

    def use(self, now: float) -> None:
        self.used, self.used_at = True, now


class Leases(Generic[S]):
    """The leases of one node. The clock is in seconds."""

    def __init__(
        self,
        idle_seconds: float,
        first_use_seconds: float,
        clock: Clock,
        most: int = MOST_REMEMBERED,
    ) -> None:
        self._idle_seconds = idle_seconds
        self._first_use_seconds = min(idle_seconds, first_use_seconds)
        self._clock = clock
        self._leases: dict[str, _Lease[S]] = {}
        self._endings = EndedSessions(most)

    def __len__(self) -> int:
        return len(self._leases)

    def __iter__(self) -> Iterator[str]:
        return iter(self._leases)

    def begin(self, instance_id: str, session: S, lifetime: float) -> None:
        """Raises SessionLostError if the identifier is forbidden or was used before."""
        reason = self._endings.reason(instance_id)
        if instance_id in self._leases:
            reason = "another session has its identifier"
        if reason is not None:
            raise SessionLostError(lost_message(instance_id, reason))
        self._leases[instance_id] = _Lease(session, lifetime, self._clock())

    def forbid(self, instance_id: str, reason: str) -> None:
        """Allow no lease under this identifier."""
        self._endings.remember(instance_id, reason)

    @contextmanager
    def using(self, instance_id: str) -> Iterator[S]:
        """The session, during a call. Raises SessionLostError, also in the middle of the call.

        Raises RefusedRequestError if too many calls of this session run.
        """
        lease = self._find(instance_id)
        if len(lease.calls) >= MOST_CALLS:
            raise RefusedRequestError(
                429,
                f"{MOST_CALLS} requests wait for session {shown_id(instance_id)}, which handles "
                "one at a time: send fewer",
            )
        lease.use(self._clock())
        try:
            with lease.calls.begin():
                yield lease.session
        finally:
            lease.use(self._clock())

    def seconds_left(self, instance_id: str) -> float:
        """The rest of its lifetime. Counts as use. Raises SessionLostError."""
        lease = self._find(instance_id)
        lease.use(self._clock())
        return max(0.0, lease.expires_at - lease.used_at)

    def end(self, instance_id: str, reason: str) -> S | None:
        """End a lease and its running calls; its session, or None if it had ended before."""
        lease = self._leases.pop(instance_id, None)
        if lease is None:
            return None
        self._endings.remember(instance_id, reason)
        lease.calls.interrupt(SessionLostError(lost_message(instance_id, reason)))
        return lease.session

    def reason(self, instance_id: str) -> str | None:
        """Why a session ended; None if it has not ended or is unknown."""
        return self._endings.reason(instance_id)

    def due(self) -> list[tuple[str, str]]:
        """The leases that must end now, each with the reason."""
        now = self._clock()
        due: list[tuple[str, str]] = []
        for instance_id, lease in self._leases.items():
            if now >= lease.expires_at:
                due.append((instance_id, f"it expired after {lease.lifetime / 60:g} min"))
            elif not lease.used and now - lease.used_at >= self._first_use_seconds:
                within = f"{self._first_use_seconds:g} s"
                due.append((instance_id, f"it was not used within {within} of its start"))
            elif not lease.calls and now - lease.used_at >= self._idle_seconds:
                due.append((instance_id, f"it was unused for {self._idle_seconds:g} s"))
        return due

    def _find(self, instance_id: str) -> _Lease[S]:
        lease = self._leases.get(instance_id)
        if lease is not None:
            return lease
        reason = self._endings.reason(instance_id)
        raise SessionLostError(
            unknown_session(instance_id) if reason is None else lost_message(instance_id, reason)
        )


def new_instance_id() -> str:
    """192 random bits: knowledge of an identifier gives access to its session."""
    return secrets.token_urlsafe(24)
