"""The statistics of every number that rollouts have.

The names come from verifiers, and one of them may put something unbounded into a name. Only the
`FIELD_LIMIT` names that come first in the alphabet are kept. Such a name was among the first at
every moment before, so what is kept is complete, and the same in whatever order rollouts come.
"""

from collections.abc import Mapping
from typing import Self

from rollgym.metrics.aggregate.field import FieldStatistics

FIELD_LIMIT = 256
TRUNCATED = "fields_truncated"


class Fields:
    """A field's statistics for each name."""

    __slots__ = ("_by_name", "_truncated")

    def __init__(self) -> None:
        self._by_name: dict[str, FieldStatistics] = {}
        self._truncated = False

    def __contains__(self, name: str) -> bool:
        return name in self._by_name

    def add(self, numbers: Mapping[str, float]) -> None:
        for name, value in numbers.items():
            statistics = self._by_name.get(name) or self._open(name)
            if statistics is not None:
                statistics.add(value)

    def merge(self, other: Self) -> None:
        """Add everything the other has seen; the other is left as it is."""
        self._truncated |= other._truncated
        for name, theirs in other._by_name.items():
            ours = self._by_name.get(name) or self._open(name)
            if ours is not None:
                ours.merge(theirs)

    def metrics(self) -> dict[str, float]:
        """Every field's numbers in the order of the names; `fields_truncated` where some are not
        among them."""
        metrics = {
            key: value
            for name in sorted(self._by_name)
            for key, value in self._by_name[name].metrics(name)
        }
        return {**metrics, TRUNCATED: True} if self._truncated else metrics

    def _open(self, name: str) -> FieldStatistics | None:
        """Make room for a new name, at the cost of the last one; None where it is itself last."""
        if len(self._by_name) >= FIELD_LIMIT:
            self._truncated = True
            last = max(self._by_name)
            if name > last:
                return None
            del self._by_name[last]
        statistics = self._by_name[name] = FieldStatistics()
        return statistics
