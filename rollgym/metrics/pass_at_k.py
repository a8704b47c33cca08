"""pass@k: the expected best score of k rollouts of a task, over all tasks.

Of n rollouts with the scores v(1) <= ... <= v(n), a draw of k has v(i) as its best in C(i-1, k-1)
of the C(n, k) ways to draw. The mean of the best over all draws is the unbiased estimate. For
scores of 0 and 1 it is the well-known pass@k, 1 - C(n-c, k) / C(n, k), where c rollouts succeeded.
Tasks count equally, and for each k only those with at least k rollouts do.

For every n, the sums of the i-th smallest scores are enough. So adding a task costs n additions,
any k can be asked for later, and nothing is kept of the task. Estimates are exact ratios.
"""

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from math import comb
from typing import Self

from rollgym.metrics.exact import ExactSum


class PassAtK:
    """Sums of ordered scores by the number of rollouts of a task."""

    __slots__ = ("_ordered", "_tasks")

    def __init__(self) -> None:
        self._tasks: Counter[int] = Counter()
        self._ordered: dict[int, list[ExactSum]] = {}

    def add(self, scores: Sequence[float]) -> None:
        """Count one task by its finite scores, in any order. A task without scores is ignored."""
        if scores:
            self._tasks[len(scores)] += 1
            for total, score in zip(self._sums(len(scores)), sorted(scores), strict=True):
                total.add(score)

    def add_counts(self, rollouts: int, successes: int, tasks: int = 1) -> None:
        """Count tasks of which each has this many rollouts and successes; -1 uncounts one."""
        if rollouts:
            self._tasks[rollouts] += tasks
            if not self._tasks[rollouts]:
                del self._tasks[rollouts], self._ordered[rollouts]
                return
            for total in self._sums(rollouts)[rollouts - successes :]:
                total.add_ratio(tasks, 1)

    def merge(self, other: Self) -> None:
        """Add the other's tasks; the other is left unchanged."""
        self._tasks.update(other._tasks)
        for size, theirs in other._ordered.items():
            for total, more in zip(self._sums(size), theirs, strict=True):
                total.merge(more)

    def tasks(self, k: int) -> int:
        """The number of tasks with at least k rollouts."""
        return sum(count for size, count in self._tasks.items() if size >= k)

    def ks(self) -> list[int]:
        """The powers of two up to the largest number of rollouts of a task, and that number."""
        largest = max(self._tasks, default=0)
        powers = {1 << exponent for exponent in range(largest.bit_length())}
        return sorted(powers | {largest}) if largest else []

    def estimate(self, k: int) -> Fraction | None:
        """The expected best of k; None when no task has k scores. Raises ValueError for k < 1."""
        require_positive(k)
        tasks = self.tasks(k)
        bests = (self._bests(size, k) for size in self._tasks if size >= k)
        return sum(bests, Fraction()) / tasks if tasks else None

    def estimates(self) -> dict[int, Fraction]:
        """The estimate for each of `ks`."""
        found = {k: self.estimate(k) for k in self.ks()}
        return {k: estimate for k, estimate in found.items() if estimate is not None}

    def _bests(self, size: int, k: int) -> Fraction:
        """The sum of the expected bests of the tasks with this many rollouts."""
        ways = ((total.value, comb(i, k - 1)) for i, total in enumerate(self._ordered[size]))
        return sum((value * count for value, count in ways), Fraction()) / comb(size, k)

    def _sums(self, size: int) -> list[ExactSum]:
        sums = self._ordered.get(size)
        if sums is None:
            sums = self._ordered[size] = [ExactSum() for _ in range(size)]
        return sums


def require_positive(k: int) -> None:
    """Raises ValueError for k < 1."""
    if k < 1:
        raise ValueError(f"k is {k}: it is a number of rollouts and must be at least 1")
