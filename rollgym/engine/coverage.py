"""The counts of a collection: rollouts by outcome, and the exit status that follows from them."""

from enum import IntEnum

import msgspec

from rollgym.engine.work import LiveSource, Source
from rollgym.records import Failed, Omitted, Outcome
from rollgym.store import Progress, Status, status_of


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


class _OpenGroup:
    """A task with rollouts still to run: their number, and the number of repeats not completed."""

    __slots__ = ("incomplete", "to_run")

    def __init__(self, to_run: int, incomplete: int) -> None:
        self.to_run = to_run
        self.incomplete = incomplete


class Ledger:
    """Counts existing outcomes and newly synced ones. Holds only open groups in memory."""

    def __init__(self, source: Source | LiveSource, before: Progress) -> None:
        self._source = source
        self._counts = {status: before.count(status) for status in Status}
        self._reopened = before.reopened
        self._groups_complete = before.groups_complete
        self._open: dict[int, _OpenGroup] = {}
        self.attempts = 0
        self.resumed = sum(self._counts.values())

    @property
    def expected(self) -> int:
        return self._source.expected

    @property
    def groups(self) -> int:
        return self._source.groups

    def open_group(self, task: int, to_run: int, completed: int, repeats: int) -> None:
        """Note that `to_run` repeats of a task will run and `completed` are completed already."""
        self._open[task] = _OpenGroup(to_run, repeats - completed)

    def acknowledge_outcome(
        self, task: int, outcome: Outcome, replaced: Failed | Omitted | None
    ) -> bool:
        """Count a rollout whose outcome is on disk, instead of the outcome that it replaced.

        Returns whether no further rollout of its task is to run.
        """
        if replaced is not None:
            self._counts[status_of(replaced)] -= 1
            self._reopened -= 1
        status = status_of(outcome)
        self._counts[status] += 1
        group = self._open[task]
        group.to_run -= 1
        group.incomplete -= status is Status.COMPLETED
        if group.incomplete == 0:
            self._groups_complete += 1
        if group.to_run == 0:
            del self._open[task]
        return group.to_run == 0

    @property
    def resolved(self) -> int:
        """The number of rollouts that have an outcome and will not run again."""
        return sum(self._counts.values()) - self._reopened

    def coverage(
        self, abandoned: int, dropped_events: dict[str, int], stopped: str | None
    ) -> Coverage:
        return Coverage(
            expected=self.expected,
            completed=self._counts[Status.COMPLETED],
            failed=self._counts[Status.FAILED],
            omitted=self._counts[Status.OMITTED],
            groups=self.groups,
            groups_complete=self._groups_complete,
            resumed=self.resumed,
            attempts=self.attempts,
            abandoned=abandoned,
            dropped_events=dropped_events,
            stopped=stopped,
        )
