"""What a running collection shows of itself: its state, its numbers and its open attempts."""

from datetime import datetime
from enum import Enum

import msgspec

from rollgym.records import RolloutKey


def describe_time(moment: float) -> str:
    """A time of the wall clock, in the zone of this machine."""
    return datetime.fromtimestamp(moment).astimezone().strftime("%Y-%m-%d %H:%M:%S %Z")


class OpenAttempt(msgspec.Struct, frozen=True):
    """A rollout that has begun and has no outcome, as `cut` and `drop` show it.

    `attempt` is the number of its latest attempt, and `policy_version` the one at its start.
    `running` is false between two attempts.
    """

    key: RolloutKey
    attempt: int
    policy_version: str | None
    running: bool


class State(Enum):
    """What a collection is doing."""

    STARTING = "starting"
    RUNNING = "running"
    PAUSED = "paused"
    STOPPING = "stopping"
    ENDED = "ended"


class CollectionStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The present state of a collection. `waiting` rollouts are between two attempts.

    `cost` is in dollars, `deadline` a time of the wall clock.
    """

    state: State
    holds: tuple[str, ...]
    expected: int
    completed: int
    failed: int
    omitted: int
    reopened: int
    running: int
    waiting: int
    limit: int
    concurrency: str
    tokens: int
    cost: float
    max_tokens: int | None
    max_cost: float | None
    deadline: float | None
    policy_version: str | None
    stopping: str | None
