"""How each task's rewards are spread over its repeats."""

from collections.abc import Iterable, Iterator

import msgspec

from rollgym.metrics.distribution import Distribution
from rollgym.records import Attempt, Completed, Failed, Omitted


class TaskProfile(msgspec.Struct, frozen=True, kw_only=True):
    """One task. The reward's numbers are None where nothing completed; `std` has ddof=0."""

    task: int
    repeats: int
    completed: int
    failed: int
    omitted: int
    successes: int
    mean: float | None
    std: float | None
    min: float | None
    max: float | None


class _OpenTask:
    """A task of which not every repeat has been seen."""

    __slots__ = ("_failed", "_omitted", "_repeats", "_rewards", "_successes", "_task")

    def __init__(self, task: int, repeats: int) -> None:
        self._task = task
        self._repeats = repeats
        self._failed = 0
        self._omitted = 0
        self._successes = 0
        self._rewards = Distribution()

    @property
    def full(self) -> bool:
        return self._rewards.count + self._failed + self._omitted >= self._repeats

    def add(self, attempt: Attempt) -> None:
        match attempt.outcome:
            case Completed() as outcome:
                self._successes += outcome.succeeded
                self._rewards.add(outcome.reward)
            case Failed():
                self._failed += 1
            case Omitted():
                self._omitted += 1

    def profile(self) -> TaskProfile:
        return TaskProfile(
            task=self._task,
            repeats=self._repeats,
            completed=self._rewards.count,
            failed=self._failed,
            omitted=self._omitted,
            successes=self._successes,
            mean=self._rewards.mean,
            std=self._rewards.std,
            min=self._rewards.min,
            max=self._rewards.max,
        )


def reward_profile(attempts: Iterable[Attempt]) -> Iterator[TaskProfile]:
    """Profile each task of a stream of records, holding only the tasks that are still open.

    A task comes out as soon as all its repeats have ended; those that never do come last, in the
    order of their index. Records that are not final are passed over. Superseded ones must not be
    in the stream: each rollout ends once.
    """
    open_tasks: dict[int, _OpenTask] = {}
    for attempt in attempts:
        if not attempt.final:
            continue
        task = open_tasks.get(attempt.task)
        if task is None:
            task = open_tasks[attempt.task] = _OpenTask(attempt.task, attempt.repeats)
        task.add(attempt)
        if task.full:
            yield open_tasks.pop(attempt.task).profile()
    for index in sorted(open_tasks):
        yield open_tasks[index].profile()
