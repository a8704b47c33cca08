"""The count of a collection: every rollout of the source, by what is on disk of it."""

from rollgym.engine.coverage import Coverage
from rollgym.records import Failed, Omitted, Outcome
from rollgym.store import Progress, Status, status_of


class _OpenGroup:
    """A task with rollouts still to run: how many, and how many are not completed."""

    __slots__ = ("incomplete", "to_run")

    def __init__(self, to_run: int, incomplete: int) -> None:
        self.to_run = to_run
        self.incomplete = incomplete


class Ledger:
    """Counts what was there before and what is acknowledged now. Holds only open groups."""

    def __init__(self, expected: int, groups: int, before: Progress) -> None:
        self.expected = expected
        self.groups = groups
        self._counts = {status: before.count(status) for status in Status}
        self._reopened = before.reopened
        self._groups_complete = before.groups_complete
        self._open: dict[int, _OpenGroup] = {}
        self._attempts = 0
        self.resumed = sum(self._counts.values())

    def open_group(self, task: int, to_run: int, completed: int, repeats: int) -> None:
        """Some repeats of a task will run; so many are completed already."""
        self._open[task] = _OpenGroup(to_run, repeats - completed)

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
