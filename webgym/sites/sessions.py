"""The visitors that are remembered: a bounded number of them, each until it has been idle for long.

The one that was away longest is forgotten first.
"""

import time
from collections import OrderedDict
from collections.abc import Callable

from webgym.sites.session import Session

SESSION_LIMIT = 4_096
SESSION_SECONDS = 6 * 3600.0


class Sessions:
    """Sessions by name."""

    def __init__(
        self,
        limit: int = SESSION_LIMIT,
        seconds: float = SESSION_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limit = limit
        self._seconds = seconds
        self._clock = clock
        self._sessions: OrderedDict[str, tuple[float, Session]] = OrderedDict()

    def __len__(self) -> int:
        self._forget()
        return len(self._sessions)

    def find(self, name: str) -> Session | None:
        """The session as it is, without counting as a visit."""
        self._forget()
        known = self._sessions.get(name)
        return known[1] if known else None

    def visit(self, name: str, *, known_before: bool) -> Session:
        """The visitor's session, made where there is none.

        With `known_before` the visitor has been here before, so a session that is not there any
        more was lost.
        """
        return self._keep(self.find(name) or Session(name, lost=known_before))

    def reset(self, name: str) -> Session:
        """Let the session begin anew, with nothing done."""
        return self._keep(Session(name))

    def _keep(self, session: Session) -> Session:
        self._sessions[session.session] = (self._clock(), session)
        self._sessions.move_to_end(session.session)
        while len(self._sessions) > self._limit:
            self._sessions.popitem(last=False)
        return session

    def _forget(self) -> None:
        oldest = self._clock() - self._seconds
        while self._sessions:
            name, (seen, _) = next(iter(self._sessions.items()))
            if seen >= oldest:
                return
            del self._sessions[name]
