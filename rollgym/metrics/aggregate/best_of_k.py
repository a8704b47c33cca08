"""The best score among k rollouts of a task: pass@k, of any score.

Of n rollouts with the scores v(1) <= ... <= v(n), a draw of k has v(i) as its best in C(i-1, k-1)
of the C(n, k) ways to draw. The mean of the best over all draws is the unbiased estimate; of
scores that are 0 or 1 it is pass@k as everybody knows it, 1 - C(n-c, k) / C(n, k). Tasks count
equally, and for each k those with at least k rollouts do.

For every n the sums of the i-th smallest scores are enough, so adding a task costs n additions,
whatever k is asked for later, and nothing is held of the task.
"""

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from math import comb
from typing import Self

from rollgym.metrics.aggregate.scores import require_positive
from rollgym.metrics.exact import ExactSum


class BestOfK:
    """Sums of ordered scores by the number of rollouts of a task."""

    __slots__ = ("_ordered", "_tasks")

    def __init__(self) -> None:
        self._tasks: Counter[int] = Counter()
        self._ordered: dict[int, list[ExactSum]] = {}

    def add(self, scores: Sequence[float]) -> None:
        """Count one task by its finite scores, in any order; one without scores is not counted."""
        if scores:
            self._tasks[len(scores)] += 1
            for total, score in zip(self._sums(len(scores)), sorted(scores), strict=True):
                total.add(score)

    def merge(self, other: Self) -> None:
        """Add the other's tasks; the other is left as it is."""
        self._tasks.update(other._tasks)
        for size, theirs in other._ordered.items():
            for total, more in zip(self._sums(size), theirs, strict=True):
                total.merge(more)

    @property
    def largest(self) -> int:
        """The most rollouts of any task."""
        return max(self._tasks, default=0)

    def estimate(self, k: int) -> Fraction | None:
        """The expected best of k; None where no task has k scores. Raises ValueError for k < 1."""
        require_positive(k)
        tasks = sum(count for size, count in self._tasks.items() if size >= k)
        bests = (self._bests(size, k) for size in self._tasks if size >= k)
        return sum(bests, Fraction()) / tasks if tasks else None

    def _bests(self, size: int, k: int) -> Fraction:
        """The sum of the expected bests of the tasks with this many rollouts."""
        ways = ((total.value, comb(i, k - 1)) for i, total in enumerate(self._ordered[size]))
        return sum((value * count for value, count in ways), Fraction()) / comb(size, k)

    def _sums(self, size: int) -> list[ExactSum]:
        sums = self._ordered.get(size)
        if sums is None:
            sums = self._ordered[size] = [ExactSum() for _ in range(size)]
        return sums


def usual_ks(largest: int) -> list[int]:
    """The powers of two up to the largest number of rollouts, and that number."""
    powers = {1 << exponent for exponent in range(largest.bit_length())}
    return sorted(powers | {largest}) if largest else []
