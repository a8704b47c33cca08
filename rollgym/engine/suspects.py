"""Rollouts that may have frozen or killed an earlier process.

They wait until everything else has been done, and then run one at a time. So if the process freezes
or dies again, it is clear which rollout caused it, and nothing else is lost. Each such end is
recorded as a failed attempt when the next process starts, and the second one is the outcome of the
rollout: it is not tried for ever.

Where several rollouts were running and none of them can be singled out, nothing is recorded; they
only run alone from then on.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterator

from rollgym.engine.policy import MOST_CRASHES
from rollgym.engine.recorder import Recorder
from rollgym.engine.work import OpenRollout
from rollgym.records import Failed, Failure, FailureKind
from rollgym.store import EarlierDeath

SHOWN = 8

log = logging.getLogger(__name__)


class Suspects:
    """The suspects of one collection, in the order of the source."""

    def __init__(self, death: EarlierDeath | None) -> None:
        if death is not None:
            names = ", ".join(map(str, sorted(death.rollouts)[:SHOWN]))
            more = f" and {len(death.rollouts) - SHOWN} more" * (len(death.rollouts) > SHOWN)
            log.warning(
                "an earlier process of this run did not end normally: %s. These rollouts ran "
                "at that time; now each of them runs alone, after all others: %s%s",
                death.cause,
                names,
                more,
            )
        self._death = death
        self._accused: list[OpenRollout] = []
        self._waiting: deque[OpenRollout] = deque()

    def __len__(self) -> int:
        return len(self._accused) + len(self._waiting)

    def keep(self, rollout: OpenRollout) -> bool:
        """Keep a rollout that must run alone, and return whether it must."""
        key, death = rollout.item.key, self._death
        if death is not None and death.culprit == key:
            self._accused.append(rollout)
        elif rollout.suspected or (death is not None and key in death.rollouts):
            self._waiting.append(rollout)
        else:
            return False
        return True

    def next(self) -> OpenRollout | None:
        """The next rollout to run alone."""
        return self._waiting.popleft() if self._waiting else None

    def drain(self) -> Iterator[OpenRollout]:
        """Remove and return the rollouts that have not run."""
        while self._waiting:
            yield self._waiting.popleft()

    async def record(self, recorder: Recorder, wall_clock: Callable[[], float]) -> bool:
        """Record the attempts that ended an earlier process. Returns whether there were any.

        Raises StorageError.
        """
        recorded = bool(self._accused)
        while self._accused:
            rollout = self._accused.pop()
            rollout.attempt += 1
            rollout.spent += 1
            rollout.crashes += 1
            rollout.started_wall = wall_clock()
            cause = self._death.cause if self._death else ""
            final = rollout.crashes >= MOST_CRASHES
            failure = Failure.make(FailureKind.CRASH, cause)
            await recorder.record(rollout, Failed(failure), 0.0, final=final)  # never refilled
            if not final:
                self._waiting.append(rollout)
        return recorded
