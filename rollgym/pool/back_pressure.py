"""Back-pressure: when a pool starts no further group, and how busy its slots are.

*Undelivered groups.* Finished groups that no trainer has taken are bounded. Groups that run are
finished in addition. There may be as many of them as slots, because each may wait for its last
rollout; those beyond count as finished, because their records are only not synced yet.

*Staleness.* Groups that are ahead of a new one are delivered before it. How many
groups trainers take per version is known, so the version at its delivery can be predicted, and a
group that would be too old then is not started. A trainer that waits while nothing runs is always
served: it may need more groups than for the versions before.

*Busy slots.* A slot that stays free because of back-pressure is not the pool's to fill. That time
is counted as held, and the busy share is that of the rest.
"""

import asyncio
import math
from collections.abc import Callable
from typing import Any

from rollgym.engine import Adaptive, Control, EncodedAttempt, Fixed, Worker, WorkItem
from rollgym.pool.state import PoolState
from rollgym.records import Outcome


class Slots:
    """Measures the time of attempts against the time of slots. It wraps the worker."""

    def __init__(
        self,
        worker: Worker,
        concurrency: Fixed | Adaptive,
        control: Control,
        hold: Callable[[], str | None],
    ) -> None:
        """`concurrency` is that of the policy. `hold` is why no slot is filled."""
        self.running = 0
        self._worker = worker
        self._concurrency = concurrency
        self._control = control
        self._hold = hold
        self._since: float | None = None
        self._peak = 0
        self._busy = self._idle = self._held = 0.0

    @property
    def limit(self) -> int | None:
        """The number of slots; None where it adapts."""
        chosen = self._concurrency
        return self._control.concurrency or (chosen.limit if isinstance(chosen, Fixed) else None)

    @property
    def most(self) -> int:
        """The most attempts that may run at the same time; where it adapts, that did so far."""
        chosen = self._concurrency
        initial = chosen.initial if isinstance(chosen, Adaptive) else chosen.limit
        return self.limit or max(initial, self._peak)

    async def __call__(
        self, item: WorkItem, attempt: int, deadline: float
    ) -> Outcome | EncodedAttempt:
        self.observe()
        self.running += 1
        self._peak = max(self._peak, self.running)
        try:
            return await self._worker(item, attempt, deadline)
        finally:
            self.observe()
            self.running -= 1

    def observe(self) -> None:
        """Count the time since the last change; to be called before each one."""
        now = asyncio.get_running_loop().time()
        since, self._since = self._since, now
        if since is None:
            return
        self._busy += self.running * (now - since)
        limit = self.limit
        if limit is not None:
            free = max(0, limit - self.running) * (now - since)
            if self._hold():
                self._held += free
            else:
                self._idle += free

    def numbers(self) -> dict[str, Any]:
        """The present state and the shares; `busy` leaves out what back-pressure held."""
        self.observe()
        total = self._busy + self._idle + self._held
        asked = self._busy + self._idle
        limit = self.limit
        known = limit is not None
        return {
            "limit": limit,
            "running": self.running,
            "busy": round(self._busy / asked, 4) if known and asked else None,
            "held": round(self._held / total, 4) if known and total else None,
        }


class BackPressure:
    """Decides by the state of the pool. `waiting` is how many trainers wait for a group."""

    def __init__(
        self, state: PoolState, slots: Slots, max_undelivered: int, max_staleness: int | None
    ) -> None:
        self.waiting = 0
        self._state = state
        self._slots = slots
        self._max_undelivered = max_undelivered
        self._max_staleness = max_staleness

    def hold(self) -> str | None:
        """Why no group may be started now; None where one may."""
        state = self._state
        undelivered = state.undelivered + max(0, state.running - self._slots.most)
        if undelivered >= self._max_undelivered:
            return f"{undelivered} groups wait for a trainer"
        ahead = state.remaining - state.leased
        if self._max_staleness is None or (self.waiting and not ahead):
            return None
        expected = self._expected_age(ahead)
        if expected > self._max_staleness:
            return f"a new group would be {expected} versions old when it is delivered"
        return None

    def _expected_age(self, ahead: int) -> int:
        """How many versions will come before a group that is started now is delivered."""
        per_version = self._state.taken_per_version
        if per_version is None:
            return 0
        return (self._state.taken_now + ahead) // max(1, math.ceil(per_version))
