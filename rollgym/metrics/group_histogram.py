"""Groups by what came of them, and the estimates pass@k and mean@k.

Of a group, pass@k needs only how many rollouts completed (n) and how many of those succeeded (c):
the share of the ways to draw k of the n without a success is C(n-c, k) / C(n, k). So groups are
counted by (n, c). mean@k averages the groups' mean rewards, for which an exact sum of rewards for
each n is enough. Both take the groups with n >= k, weigh them equally, and are computed as exact
ratios that are rounded once.
"""

from collections import Counter
from fractions import Fraction
from math import comb
from typing import Self

from rollgym.metrics.exact import ExactSum
from rollgym.metrics.group import Group
from rollgym.metrics.summary import GroupCounts


class GroupHistogram:
    """How many groups had n rollouts completed and c of them succeeding."""

    __slots__ = ("_complete", "_groups", "_rewards")

    def __init__(self) -> None:
        self._complete = 0
        self._groups: Counter[tuple[int, int]] = Counter()
        self._rewards: dict[int, ExactSum] = {}

    def fold(self, group: Group) -> None:
        """Count a group; of itself nothing is kept."""
        completed = group.completed
        self._complete += completed == group.repeats
        self._groups[completed, group.successes] += 1
        self._rewards_of(completed).merge(group.rewards)

    def merge(self, other: Self) -> None:
        self._complete += other._complete
        self._groups.update(other._groups)
        for completed, rewards in other._rewards.items():
            self._rewards_of(completed).merge(rewards)

    def counts(self) -> GroupCounts:
        return GroupCounts(seen=self._groups.total(), complete=self._complete)

    def pass_at_k(self) -> dict[int, float]:
        """For each k, the unbiased estimate that at least one of k rollouts of a task succeeds."""
        return {k: float(self._pass_at(k)) for k in self._ks()}

    def mean_at_k(self) -> dict[int, float]:
        """For each k, the mean of the mean rewards of the groups with k completed rollouts."""
        return {k: float(self._mean_at(k)) for k in self._ks()}

    def _ks(self) -> list[int]:
        """The powers of two up to the largest n, and that n: each has a group to estimate from."""
        largest = max(self._rewards, default=0)
        powers = {1 << exponent for exponent in range(largest.bit_length())}
        return sorted(powers | {largest}) if largest else []

    def _pass_at(self, k: int) -> Fraction:
        misses: Counter[int] = Counter()
        for (completed, successes), groups in self._groups.items():
            if completed >= k:
                misses[completed] += groups * comb(completed - successes, k)
        missed = sum((Fraction(ways, comb(n, k)) for n, ways in misses.items()), Fraction())
        return 1 - missed / self._eligible(k)

    def _mean_at(self, k: int) -> Fraction:
        means = (rewards.value / n for n, rewards in self._rewards.items() if n >= k)
        return sum(means, Fraction()) / self._eligible(k)

    def _eligible(self, k: int) -> int:
        return sum(groups for (completed, _), groups in self._groups.items() if completed >= k)

    def _rewards_of(self, completed: int) -> ExactSum:
        rewards = self._rewards.get(completed)
        if rewards is None:
            rewards = self._rewards[completed] = ExactSum()
        return rewards
