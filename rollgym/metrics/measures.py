"""The distributions of the numbers that workers name themselves.

A worker that puts something unbounded into the names, such as a task's id, must not make us hold a
distribution per task. Only the `NAME_LIMIT` names that come first in the alphabet are kept. A name
among the first of all was among the first at every moment before, so what is kept is complete, and
which names are kept does not depend on the order they came in.
"""

from collections.abc import Mapping
from typing import Self

from rollgym.metrics.distribution import Distribution
from rollgym.metrics.summary import DistributionSummary

NAME_LIMIT = 256


class Measures:
    """A distribution for each name; `truncated` says that there were more names than we keep."""

    __slots__ = ("_by_name", "truncated")

    truncated: bool

    def __init__(self) -> None:
        self._by_name: dict[str, Distribution] = {}
        self.truncated = False

    def add(self, measures: Mapping[str, float]) -> None:
        for name, value in measures.items():
            distribution = self._by_name.get(name) or self._open(name)
            if distribution is not None:
                distribution.add(value)

    def merge(self, other: Self) -> None:
        self.truncated |= other.truncated
        for name, theirs in other._by_name.items():
            ours = self._by_name.get(name) or self._open(name)
            if ours is not None:
                ours.merge(theirs)

    def summary(self) -> dict[str, DistributionSummary]:
        return {name: self._by_name[name].summary() for name in sorted(self._by_name)}

    def _open(self, name: str) -> Distribution | None:
        """Make room for a new name, at the cost of the last one; None where it is itself last."""
        if len(self._by_name) >= NAME_LIMIT:
            self.truncated = True
            last = max(self._by_name)
            if name > last:
                return None
            del self._by_name[last]
        distribution = self._by_name[name] = Distribution()
        return distribution
