"""Groups: the repeats of each task, counted in the memory of the open groups, and their profiles.

A group is held by itself only while it is open, that is, until each of its repeats has an outcome.
Then it is added to the totals. That never changes a number: an open group enters the estimates with
its present counts, as if it were closed now. A rollout that is not completed may get another
outcome later, and then its group is opened again. So the counts of a group in which some repeats
are completed and some are not are kept; of all other groups nothing needs to be.

Every record of a task must carry the same `repeats`.

pass@k needs the completed and successful rollouts of each group (see `pass_at_k`). mean@k averages
the groups' mean rewards, for which an exact sum of rewards for each number of completed rollouts
is enough. Both use the groups with at least k completed rollouts, weigh them equally, and are
computed as exact ratios that are rounded once.

The reward profile of a task has the distribution of the rewards of its group, too.
"""

from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import Self

import msgspec

from rollgym.metrics.distribution import Distribution
from rollgym.metrics.exact import ExactSum
from rollgym.metrics.pass_at_k import PassAtK
from rollgym.metrics.summary import GroupCounts
from rollgym.records import Attempt, Completed, Failed, Outcome


class Group:
    """The counts of one task's repeats so far."""

    __slots__ = ("completed", "repeats", "resolved", "rewards", "successes")

    def __init__(self, repeats: int) -> None:
        self.repeats = repeats
        self.resolved = 0
        self.completed = 0
        self.successes = 0
        self.rewards = ExactSum()

    @property
    def full(self) -> bool:
        """Whether every repeat has an outcome."""
        return self.resolved >= self.repeats

    def add(self, outcome: Outcome) -> None:
        """Count the outcome of one repeat."""
        self.resolved += 1
        if isinstance(outcome, Completed):
            self.completed += 1
            self.successes += outcome.succeeded
            self.rewards.add(float(outcome.reward))


class GroupTotals:
    """The counts of many groups, and the estimates pass@k and mean@k."""

    __slots__ = ("_complete", "_passes", "_rewards", "_seen")

    def __init__(self) -> None:
        self._seen = 0
        self._complete = 0
        self._passes = PassAtK()
        self._rewards: dict[int, ExactSum] = {}

    def add(self, group: Group) -> None:
        """Count a group."""
        completed = group.completed
        self._seen += 1
        self._complete += completed == group.repeats
        self._passes.add_counts(completed, group.successes)
        self._rewards_of(completed).merge(group.rewards)

    def remove(self, group: Group) -> None:
        """Uncount a group that was added and is not complete."""
        completed = group.completed
        self._seen -= 1
        self._passes.add_counts(completed, group.successes, tasks=-1)
        self._rewards_of(completed).subtract(group.rewards)

    def merge(self, other: Self) -> None:
        self._seen += other._seen
        self._complete += other._complete
        self._passes.merge(other._passes)
        for completed, rewards in other._rewards.items():
            self._rewards_of(completed).merge(rewards)

    def counts(self) -> GroupCounts:
        return GroupCounts(seen=self._seen, complete=self._complete)

    def pass_at_k(self) -> dict[int, float]:
        """For each k, the unbiased estimate that at least one of k rollouts of a task succeeds."""
        return {k: float(estimate) for k, estimate in self._passes.estimates().items()}

    def mean_at_k(self) -> dict[int, float]:
        """For each k, the mean of the mean rewards of the groups with k completed rollouts."""
        return {k: float(self._mean_at(k)) for k in self._passes.ks()}

    def _mean_at(self, k: int) -> Fraction:
        means = (rewards.value / n for n, rewards in self._rewards.items() if n >= k)
        return sum(means, Fraction()) / self._passes.tasks(k)

    def _rewards_of(self, completed: int) -> ExactSum:
        rewards = self._rewards.get(completed)
        if rewards is None:
            rewards = self._rewards[completed] = ExactSum()
        return rewards


class Groups:
    """The open groups by task, and the totals of the closed ones.

    `_short` are closed groups in which some repeats are completed and some are not.
    """

    __slots__ = ("_closed", "_open", "_short")

    def __init__(self) -> None:
        self._open: dict[int, Group] = {}
        self._short: dict[int, Group] = {}
        self._closed = GroupTotals()

    def add(self, attempt: Attempt) -> None:
        """Count the outcome of one rollout, which has none that counts."""
        task = attempt.task
        group = self._open.get(task)
        if group is None:
            group = self._open[task] = Group(attempt.repeats)
        group.add(attempt.outcome)
        if group.full:
            self._closed.add(self._open.pop(task))
            if 0 < group.completed < group.repeats:
                self._short[task] = group

    def retract(self, task: int, repeats: int) -> None:
        """Uncount an outcome that was not a completion, in a group with this many repeats."""
        group = self._open.get(task)
        if group is None:
            group = self._short.pop(task, None)
            if group is None:
                group = Group(repeats)
                group.resolved = repeats
            self._closed.remove(group)
            self._open[task] = group
        group.resolved -= 1

    def totals(self) -> GroupTotals:
        """The totals of all groups, open and closed."""
        everything = GroupTotals()
        everything.merge(self._closed)
        for group in self._open.values():
            if group.resolved:
                everything.add(group)
        return everything


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
