"""Choosing the next rollout to run.

Rollouts come in the order of the source, all repeats of a task together, and a rollout that is due
for a retry comes before new ones, so the repeats of a task finish close together. A rollout that
waits for its retry frees its slot, but the number of open rollouts is bounded, so an outage does
not load the whole dataset into memory.

Rollouts that are reopened while the collection runs come before those that have not run, in the
order of the run's inputs, which are read once more for them.

A live source may have no task now and one later. Then `idle` is set until the source has been heard
of.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator
from itertools import count

from rollgym.engine.work import LiveSource, OpenRollout, Source, SourceError, WorkItem
from rollgym.records import Task, derive_seed
from rollgym.store import Progress, reduced
from rollgym.store.progress import Prior

SKIPS_PER_TURN = 1000


class Admission:
    """The rollouts of the source that have no outcome yet, and those waiting for a retry."""

    def __init__(
        self, source: Source | LiveSource, inputs: Iterable[Task], progress: Progress, seed: int
    ) -> None:
        """`inputs` are all tasks of the run so far; they can be iterated repeatedly."""
        self.idle = False
        self._source = source
        self._inputs = inputs
        self._progress = progress
        self._seed = seed
        self._exhausted = False
        self._fresh = self._rollouts()
        self._reopened: Iterator[OpenRollout | None] = iter(())
        self._reopening = False
        self._requests = 0
        self._waiting: list[tuple[float, int, OpenRollout]] = []
        self._order = count()

    @property
    def exhausted(self) -> bool:
        """Whether there is no further rollout, apart from those between two attempts."""
        return self._exhausted and not self._reopening

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
        """The next rollout that this collection has not attempted, or that was reopened.

        None when the source is `exhausted` or `idle`. Also None after many resumed rollouts, to let
        other tasks of the event loop run; then the caller asks again. Raises SourceError.
        """
        self.idle = False
        if self._reopening:
            try:
                return next(self._reopened)
            except StopIteration:
                self._reopening = False
        try:
            return next(self._fresh)
        except StopIteration:
            self._exhausted = True
            return None

    def reopen(self) -> None:
        """Give those rollouts too that were reopened in the progress just now."""
        self._requests += 1
        if not self._reopening:
            self._reopening = True
            self._reopened = self._reopened_rollouts()

    def between_attempts(self) -> list[OpenRollout]:
        """The rollouts that wait for a retry."""
        return [rollout for _, _, rollout in sorted(self._waiting)]

    def remove(self, chosen: Callable[[OpenRollout], bool]) -> list[OpenRollout]:
        """Remove and return the chosen rollouts among those that wait for a retry."""
        removed = [rollout for rollout in self.between_attempts() if chosen(rollout)]
        gone = set(removed)
        self._waiting = [entry for entry in self._waiting if entry[2] not in gone]
        heapq.heapify(self._waiting)
        return removed

    def extend_deadlines(self, since: float, now: float) -> None:
        """Give the waiting rollouts the time in which none could start, from `since` to `now`."""
        for due, _, rollout in self._waiting:
            if rollout.expires is not None:
                rollout.expires += max(0.0, now - max(since, due))

    def drain(self) -> Iterator[OpenRollout]:
        """Remove and return every rollout that waits for a retry."""
        while self._waiting:
            yield heapq.heappop(self._waiting)[2]

    def _rollouts(self) -> Iterator[OpenRollout | None]:
        given = skipped = tasks = 0
        for task in _guarded(self._source):
            if task is None:
                self.idle = True
                yield None
                continue
            tasks += 1
            given += task.repeats
            opened = list(self._opened(task, self._progress.take))
            skipped += task.repeats - len(opened)
            yield from opened
            if skipped >= SKIPS_PER_TURN:
                skipped = 0
                yield None
        source = self._source
        if isinstance(source, LiveSource):
            return  # it does not give again what was finished before
        if given != source.expected or tasks != source.groups:
            raise SourceError(
                f"the source announced {source.expected} rollouts of {source.groups} tasks "
                f"but gave {given} of {tasks}"
            )

    def _reopened_rollouts(self) -> Iterator[OpenRollout | None]:
        """The rollouts that wait reopened, also those that are reopened meanwhile."""
        while self._progress.waiting:
            requests, skipped, found = self._requests, 0, False
            for task in self._inputs:
                if not self._progress.waiting:
                    return
                opened = list(self._opened(task, self._progress.take_reopened))
                found = found or bool(opened)
                skipped += task.repeats - len(opened)
                yield from opened
                if skipped >= SKIPS_PER_TURN:
                    skipped = 0
                    yield None
            if not found and requests == self._requests:
                raise SourceError(
                    f"the inputs of the run lack {self._progress.waiting} rollouts that are to be "
                    "run again"
                )
            yield None

    def _opened(
        self, task: Task, take: Callable[[int, int], Prior | None]
    ) -> Iterator[OpenRollout]:
        for repeat in range(task.repeats):
            prior = take(task.index, repeat)
            if prior is None:
                continue
            item = WorkItem(task, repeat, derive_seed(self._seed, "rollout", task.index, repeat))
            # A reopened rollout gets a new retry budget; an interrupted one keeps its old one.
            spent = 0 if prior.cause else prior.attempts - prior.cuts
            replaces = reduced(prior.cause) if prior.cause else None
            rollout = OpenRollout(item, prior.attempts, spent, replaces)
            if prior.crashes:
                rollout.suspected = True
                rollout.crashes = 0 if prior.cause else prior.crashes
            yield rollout


def _guarded(source: Source | LiveSource) -> Iterator[Task | None]:
    try:
        yield from source
    except Exception as error:
        raise SourceError(f"the source of tasks failed: {error}") from error
