"""The count of a collection: every rollout of the source, by what is on disk of it."""

from collections.abc import Sequence

from rollgym.engine.coverage import Coverage
from rollgym.records import Failed, Omitted, Outcome, Task
from rollgym.store import Status, status_of


class _OpenGroup:
    """A task with rollouts still to run: how many, and how many are not completed."""

    __slots__ = ("incomplete", "to_run")

    def __init__(self, to_run: int, incomplete: int) -> None:
        self.to_run = to_run
        self.incomplete = incomplete


class Ledger:
    """Counts what was there before and what is acknowledged now. Holds only open groups."""

    def __init__(self, expected: int, groups: int) -> None:
        self.expected = expected
        self.groups = groups
        self.resumed = 0
        self._counts = dict.fromkeys(Status, 0)
        self._reopened = 0
        self._groups_complete = 0
        self._open: dict[int, _OpenGroup] = {}
        self._attempts = 0

    def enter_task(self, task: Task, statuses: Sequence[Status | None], to_run: int) -> None:
        """Take in what the repeats of a task have already, and how many of them will run."""
        completed = 0
        for status in statuses:
            if status is not None:
                self._counts[status] += 1
                self.resumed += 1
                completed += status is Status.COMPLETED
        self._reopened += to_run - statuses.count(None)
        if completed == len(statuses):
            self._groups_complete += 1
        elif to_run:
            self._open[task.index] = _OpenGroup(to_run, len(statuses) - completed)

    def acknowledge_attempt(self) -> None:
        self._attempts += 1

    def acknowledge_outcome(
        self, task: int, outcome: Outcome, replaced: Failed | Omitted | None
    ) -> None:
        """A rollout that was to run has its outcome on disk."""
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

    @property
    def settled(self) -> int:
        """Rollouts with an outcome that will not run again."""
        return sum(self._counts.values()) - self._reopened

    def coverage(self, abandoned: int, dropped_events: dict[str, int]) -> Coverage:
        return Coverage(
            expected=self.expected,
            completed=self._counts[Status.COMPLETED],
            failed=self._counts[Status.FAILED],
            omitted=self._counts[Status.OMITTED],
            groups=self.groups,
            groups_complete=self._groups_complete,
            resumed=self.resumed,
            attempts=self._attempts,
            abandoned=abandoned,
            dropped_events=dropped_events,
        )
