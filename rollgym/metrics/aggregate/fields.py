"""Statistics of one numeric field over the rollouts that have it.

A rollout without the field does not count as zero: it is left out of the field's statistics. A
value that is not finite is left out too, and counted.

Values wait in an array until there are more than `EXACT_VALUES`, and are then counted together:
most fields have few different values, and equal ones cost as much as one.

*Median.* Up to `EXACT_VALUES` values it is exact. With one more, it is that of a quantile sketch,
within one percent. The choice depends only on the number of values, so the order of adding does not
matter.
"""

from array import array
from collections.abc import Callable, Collection, Iterable, Mapping
from fractions import Fraction
from functools import lru_cache
from math import isfinite
from typing import Self

import msgspec

from rollgym.metrics.distribution import CountedValues
from rollgym.metrics.exact import rounded

EXACT_VALUES = 10_000
_ENCODER = msgspec.json.Encoder()


@lru_cache(maxsize=4096)
def constant_members(field: str, value: float) -> bytes:
    """The statistics of a field with the same finite value in all rollouts, as members of JSON.

    Many tasks have the same ones: rewards and verdicts have few different values.
    """
    return members(_constant(field, value))


def members(statistics: Mapping[str, float]) -> bytes:
    """Statistics as members of a JSON object."""
    return _ENCODER.encode(statistics)[1:-1]


def _constant(field: str, value: float) -> dict[str, float]:
    return dict(zip(_keys(field), (value, value, value, value, 0.0), strict=True))


@lru_cache(maxsize=1024)
def _keys(field: str) -> tuple[str, str, str, str, str]:
    return f"mean/{field}", f"max/{field}", f"min/{field}", f"median/{field}", f"std/{field}"


class FieldStatistics:
    """Mean, extremes, median and sample standard deviation of a stream, in bounded memory.

    All are exact, rounded once, and independent of the order, except that the median of more than
    ten thousand values is approximate.
    """

    __slots__ = ("_counted", "_non_finite", "_waiting")

    def __init__(self) -> None:
        self._waiting = array("d")
        self._counted: CountedValues | None = None
        self._non_finite = 0

    @classmethod
    def of(cls, values: Iterable[float]) -> Self:
        statistics = cls()
        statistics.add_all(list(values))
        return statistics

    def add(self, value: float) -> None:
        if not isfinite(value):
            self._non_finite += 1
            return
        self._waiting.append(value)
        if len(self._waiting) > EXACT_VALUES:
            self._count(self._counted or CountedValues())

    def add_all(self, values: Collection[float]) -> None:
        """Add many values; more than `EXACT_VALUES` are then counted together."""
        finite = list(filter(isfinite, values))
        self._non_finite += len(values) - len(finite)
        self._waiting.extend(finite)
        if len(self._waiting) > EXACT_VALUES:
            self._count(self._counted or CountedValues())

    def add_to(self, entry: dict[str, float], field: str) -> None:
        """Add the statistics to an entry, each under its key, such as `mean/reward`."""
        counted = self._counted
        if counted is None:
            counted, ordered = CountedValues(), sorted(self._waiting)
            counted.add_all(ordered)
            at: Callable[[int], float | None] = ordered.__getitem__
        else:
            self._count(counted)
            at = counted.at_rank
        lowest, highest = counted.lowest, counted.highest
        if lowest == highest and not self._non_finite:
            entry.update(_constant(field, lowest))
            return
        mean = counted.moments.mean
        if mean is not None:
            median = min(max(_median(counted.moments.count, at), lowest), highest)
            values = (mean, highest, lowest, median, counted.moments.sample_std)
            entry.update(zip(_keys(field), values, strict=True))
        if self._non_finite:
            entry[f"num_non_finite/{field}"] = self._non_finite

    def _count(self, counted: CountedValues) -> None:
        """Count the values that wait; from now on, the median is sketched."""
        counted.add_all(self._waiting)
        self._counted, self._waiting = counted, array("d")


def _median(count: int, at: Callable[[int], float | None]) -> float:
    """The middle value, or the mean of the two middle values; `at` gives the value of a rank."""
    lower, upper = at((count - 1) // 2), at(count // 2)
    return rounded((Fraction(lower or 0) + Fraction(upper or 0)) / 2)
