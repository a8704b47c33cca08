"""What a collection shows of itself: its coverage and exit status, its state, its open attempts."""

from datetime import datetime
from enum import Enum, IntEnum

import msgspec

from rollgym.engine.work import LiveSource, Source
from rollgym.records import Attempt, RolloutKey
from rollgym.store import Progress, Status


class ExitStatus(IntEnum):
    """The exit status of a command that collects.

    1 and 2 keep their usual meanings: a crash, and wrong usage of the command.
    """

    COMPLETE = 0
    FAILED = 3
    OMITTED = 4
    INTERRUPTED = 5
    REFUSED = 6
    STORAGE = 7
    STOPPED = 8


class Coverage(msgspec.Struct, frozen=True, kw_only=True):
    """How many of the `expected` rollouts have which outcome on disk.

    `resumed` outcomes existed before this collection, which recorded `attempts` attempts. A group
    (the repeats of one task) is complete when every repeat is completed. `abandoned` counts
    workers that ignored their cancellation, `dropped_events` the events that each slow or broken
    observer missed. `stopped` says why the collection stopped itself, and what to do about it.
    """

    expected: int
    completed: int
    failed: int
    omitted: int
    groups: int
    groups_complete: int
    resumed: int
    attempts: int
    abandoned: int
    dropped_events: dict[str, int]
    stopped: str | None = None

    @property
    def unresolved(self) -> int:
        return self.expected - self.completed - self.failed - self.omitted

    @property
    def exit_status(self) -> ExitStatus:
        if self.unresolved:
            return ExitStatus.STOPPED if self.stopped else ExitStatus.INTERRUPTED
        if self.failed:
            return ExitStatus.FAILED
        return ExitStatus.OMITTED if self.omitted else ExitStatus.COMPLETE

    def __str__(self) -> str:
        return (
            f"{self.expected} expected = {self.completed} completed + {self.failed} failed + "
            f"{self.omitted} omitted + {self.unresolved} unresolved"
        )

    def describe_tasks(self) -> str:
        return f"all repeats done for {self.groups_complete} of {self.groups} tasks"


class Ledger:
    """Counts existing outcomes and newly synced ones."""

    def __init__(self, source: Source | LiveSource, progress: Progress) -> None:
        """`progress` knows the existing outcomes, and is kept up to date."""
        self._source = source
        self.attempts = 0
        self.resumed = sum(progress.count(status) for status in Status)
        self._progress = progress

    @property
    def expected(self) -> int:
        return self._source.expected

    @property
    def groups(self) -> int:
        return self._source.groups

    def acknowledge(self, attempt: Attempt) -> None:
        """Count an attempt that is on disk; the outcome of a final one replaces an earlier one."""
        self.attempts += 1
        self._progress.add(attempt)

    @property
    def resolved(self) -> int:
        """The number of rollouts that have an outcome and will not run again."""
        return sum(self._progress.count(status) for status in Status) - self._progress.reopened

    def coverage(
        self, abandoned: int, dropped_events: dict[str, int], stopped: str | None
    ) -> Coverage:
        return Coverage(
            expected=self.expected,
            completed=self._progress.count(Status.COMPLETED),
            failed=self._progress.count(Status.FAILED),
            omitted=self._progress.count(Status.OMITTED),
            groups=self.groups,
            groups_complete=self._progress.groups_complete,
            resumed=self.resumed,
            attempts=self.attempts,
            abandoned=abandoned,
            dropped_events=dropped_events,
            stopped=stopped,
        )


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
