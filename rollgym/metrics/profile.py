"""The reward profile: how each task's rewards are distributed over its repeats."""

from collections.abc import Iterable, Iterator

import msgspec

from rollgym.metrics.distribution import Distribution
from rollgym.metrics.groups import Group
from rollgym.records import Attempt, Completed, Failed


class TaskProfile(msgspec.Struct, frozen=True, kw_only=True):
    """One task. The numbers of the reward are None without completed rollouts; `std` has ddof=0."""

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
    """A task with repeats that have no outcome yet."""

    __slots__ = ("_failed", "_rewards", "_task", "group")

    def __init__(self, task: int, repeats: int) -> None:
        self.group = Group(repeats)
        self._task = task
        self._failed = 0
        self._rewards = Distribution()

    def add(self, attempt: Attempt) -> None:
        self.group.add(attempt.outcome)
        self._failed += isinstance(attempt.outcome, Failed)
        if isinstance(attempt.outcome, Completed):
            self._rewards.add(attempt.outcome.reward)

    def profile(self) -> TaskProfile:
        group, rewards = self.group, self._rewards
        return TaskProfile(
            task=self._task,
            repeats=group.repeats,
            completed=group.completed,
            failed=self._failed,
            omitted=group.resolved - group.completed - self._failed,
            successes=group.successes,
            mean=rewards.mean,
            std=rewards.std,
            min=rewards.min,
            max=rewards.max,
        )


def reward_profile(attempts: Iterable[Attempt]) -> Iterator[TaskProfile]:
    """Profile each task of a stream of records; only open tasks are held in memory.

    A task is yielded when all its repeats have an outcome; incomplete tasks come last, by index.
    Records that are not final are ignored. The stream must not hold superseded records.
    """
    open_tasks: dict[int, _OpenTask] = {}
    for attempt in attempts:
        if not attempt.final:
            continue
        task = open_tasks.get(attempt.task)
        if task is None:
            task = open_tasks[attempt.task] = _OpenTask(attempt.task, attempt.repeats)
        task.add(attempt)
        if task.group.full:
            yield open_tasks.pop(attempt.task).profile()
    for index in sorted(open_tasks):
        yield open_tasks[index].profile()
