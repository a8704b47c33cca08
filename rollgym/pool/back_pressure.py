"""Back-pressure: when a pool starts no further group.

*Undelivered groups.* Finished groups that no trainer has taken are bounded. Groups that run are
finished in addition. There may be as many of them as slots, because each may wait for its last
rollout; those beyond count as finished, because their records are only not synced yet.

*Staleness.* Groups that are ahead of a new one are delivered before it. How many
groups trainers take per version is known, so the version at its delivery can be predicted, and a
group that would be too old then is not started. A trainer that waits while nothing runs is always
served: it may need more groups than for the versions before.
"""

import math

from rollgym.pool.slots import Slots
from rollgym.pool.state import PoolState


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
