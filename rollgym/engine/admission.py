"""Choosing the next rollout to run.

Rollouts come in the order of the source, all repeats of a task together, and a rollout that is due
for a retry comes before new ones, so the repeats of a task finish close together. A rollout that
waits for its retry frees its slot, but the number of open rollouts is bounded, so an outage does
not load the whole dataset into memory.

A live source may have no task now and one later. Then `idle` is set until the source has been heard
of.
"""

import heapq
from collections.abc import Iterator
from itertools import count

from rollgym.engine.coverage import Ledger
from rollgym.engine.work import LiveSource, OpenRollout, Source, SourceError, WorkItem
from rollgym.records import Task, derive_seed
from rollgym.store import Progress, Status

SKIPS_PER_TURN = 1000


class Admission:
    """The rollouts of the source that have no outcome yet, and those waiting for a retry."""

    def __init__(
        self, source: Source | LiveSource, progress: Progress, ledger: Ledger, seed: int
    ) -> None:
        self.exhausted = False
        self.idle = False
        self._progress = progress
        self._ledger = ledger
        self._seed = seed
        self._fresh = self._rollouts(source)
        self._waiting: list[tuple[float, int, OpenRollout]] = []
        self._order = count()

    @property
    def waiting(self) -> int:
        """The number of rollouts between two attempts."""
        return len(self._waiting)

    @property
    def next_due(self) -> float | None:
        """When the earliest retry is due."""
        return self._waiting[0][0] if self._waiting else None

    def retry_at(self, due: float, rollout: OpenRollout) -> None:
        heapq.heappush(self._waiting, (due, next(self._order), rollout))

    def due(self, now: float) -> OpenRollout | None:
        """A rollout whose retry is due."""
        if self._waiting and self._waiting[0][0] <= now:
            return heapq.heappop(self._waiting)[2]
        return None

    def fresh(self) -> OpenRollout | None:
        """The next rollout that this collection has not attempted.

        None when the source is `exhausted` or `idle`. Also None after many resumed rollouts, to let
        other tasks of the event loop run; then the caller asks again. Raises SourceError.
        """
        self.idle = False
        try:
            return next(self._fresh)
        except StopIteration:
            self.exhausted = True
            return None

    def drain(self) -> Iterator[OpenRollout]:
        """Remove and return every rollout that waits for a retry."""
        while self._waiting:
            yield heapq.heappop(self._waiting)[2]

    def _rollouts(self, source: Source | LiveSource) -> Iterator[OpenRollout | None]:
        given = skipped = tasks = 0
        for task in _guarded(source):
            if task is None:
                self.idle = True
                yield None
                continue
            tasks += 1
            given += task.repeats
            opened = self._enter(task)
            skipped += task.repeats - len(opened)
            yield from opened
            if skipped >= SKIPS_PER_TURN:
                skipped = 0
                yield None
        if isinstance(source, LiveSource):
            return  # it does not give again what was finished before
        if given != source.expected or tasks != source.groups:
            raise SourceError(
                f"the source announced {source.expected} rollouts of {source.groups} tasks "
                f"but gave {given} of {tasks}"
            )

    def _enter(self, task: Task) -> list[OpenRollout]:
        statuses = [self._progress.status(task.index, repeat) for repeat in range(task.repeats)]
        opened = []
        for repeat, status in enumerate(statuses):
            prior = self._progress.pop_prior(task.index, repeat)
            reopened = prior.reopened if prior else None
            if status is not None and reopened is None:
                continue
            attempts = prior.attempts if prior else 0
            # A reopened rollout gets a new retry budget; an interrupted one keeps its old one.
            spent = 0 if reopened else attempts
            item = WorkItem(task, repeat, derive_seed(self._seed, "rollout", task.index, repeat))
            rollout = OpenRollout(item, attempts, spent, reopened)
            if prior and prior.crashes:
                rollout.suspected = True
                rollout.crashes = 0 if reopened else prior.crashes
            opened.append(rollout)
        if opened:
            completed = statuses.count(Status.COMPLETED)
            self._ledger.open_group(task.index, len(opened), completed, task.repeats)
        return opened


def _guarded(source: Source | LiveSource) -> Iterator[Task | None]:
    try:
        yield from source
    except Exception as error:
        raise SourceError(f"the source of tasks failed: {error}") from error
