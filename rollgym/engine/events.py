"""What observers are told."""

from pathlib import Path

import msgspec

from rollgym.engine.coverage import Coverage
from rollgym.records import Attempt, Failed, Omitted, RolloutKey


class CollectionStarted(msgspec.Struct, frozen=True):
    """The first event. `resumed` rollouts have an outcome from before."""

    expected: int
    groups: int
    resumed: int


class AttemptStarted(msgspec.Struct, frozen=True):
    """A worker begins. `limit` is the present bound on attempts in flight."""

    key: RolloutKey
    attempt: int
    in_flight: int
    limit: int


class AttemptRecorded(msgspec.Struct, frozen=True):
    """An attempt is on disk, synced.

    `attempt` comes without its `result`, which can be read from the journal at `offset`. Where the
    rollout had an outcome before, which this one replaces, that is `replaced`, in brief.
    """

    attempt: Attempt
    journal: Path
    offset: int
    replaced: Failed | Omitted | None


class StopRequested(msgspec.Struct, frozen=True):
    """The collection winds down, because of a signal or because the rest are stragglers."""

    reason: str


class CollectionEnded(msgspec.Struct, frozen=True):
    """The last event."""

    coverage: Coverage


Event = CollectionStarted | AttemptStarted | AttemptRecorded | StopRequested | CollectionEnded
