"""Statistics of one numeric field over the rollouts that have it.

A rollout without the field does not count as zero: it is left out of the field's statistics. A
value that is not finite is left out too, and counted.

*Median.* Up to `EXACT_VALUES` values are kept, and the median is exact. With one more, all values
go into a quantile sketch, and from then on the median is within one percent. The choice depends
only on the number of values, so the order of adding does not matter.
"""

from array import array
from collections.abc import Iterable, Iterator
from fractions import Fraction
from functools import lru_cache
from math import inf, isfinite
from typing import Self

from rollgym.metrics.distribution import QuantileSketch
from rollgym.metrics.exact import Moments, rounded

EXACT_VALUES = 10_000


class Median:
    """The median of the finite floats given so far."""

    __slots__ = ("_count", "_sketch", "_values")

    def __init__(self) -> None:
        self._count = 0
        self._values = array("d")
        self._sketch: QuantileSketch | None = None

    def add(self, value: float) -> None:
        self._count += 1
        if self._sketch is None:
            self._values.append(value)
            if len(self._values) > EXACT_VALUES:
                self._use_sketch()
        else:
            self._sketch.add(value)

    @property
    def value(self) -> float | None:
        """The middle value, or the mean of the two middle values; None without values."""
        lower, upper = self._at((self._count - 1) // 2), self._at(self._count // 2)
        if lower is None or upper is None:
            return None
        return rounded((Fraction(lower) + Fraction(upper)) / 2)

    def _at(self, rank: int) -> float | None:
        """The value at a rank, counted from 0."""
        if not self._count:
            return None
        if self._sketch is None:
            return sorted(self._values)[rank]
        # The sketch rounds down to a rank, so aim at the middle of it, clear of float rounding.
        return self._sketch.quantile((rank + 0.5) / (self._count - 1))

    def _use_sketch(self) -> None:
        self._sketch = QuantileSketch()
        for value in self._values:
            self._sketch.add(value)
        self._values = array("d")


def constant_metrics(field: str, value: float) -> Iterator[tuple[str, float]]:
    """The statistics of a field with the same finite value in all rollouts."""
    return zip(_keys(field), (value, value, value, value, 0.0), strict=True)


@lru_cache(maxsize=1024)
def _keys(field: str) -> tuple[str, ...]:
    return tuple(f"{name}/{field}" for name in ("mean", "max", "min", "median", "std"))


class FieldStatistics:
    """Mean, extremes, median and sample standard deviation of a stream, in bounded memory.

    All are exact, rounded once, and independent of the order, except that the median of more than
    ten thousand values is approximate.
    """

    __slots__ = ("_highest", "_lowest", "_median", "_moments", "_non_finite")

    def __init__(self) -> None:
        self._moments = Moments()
        self._median = Median()
        self._lowest = inf
        self._highest = -inf
        self._non_finite = 0

    @classmethod
    def of(cls, values: Iterable[float]) -> Self:
        statistics = cls()
        for value in values:
            statistics.add(value)
        return statistics

    def add(self, value: float) -> None:
        if not isfinite(value):
            self._non_finite += 1
            return
        self._moments.add(value)
        self._median.add(value)
        self._lowest = min(self._lowest, value)
        self._highest = max(self._highest, value)

    def metrics(self, field: str) -> Iterator[tuple[str, float]]:
        """The statistics, each under its key, such as `mean/reward`."""
        if self._lowest == self._highest and not self._non_finite:
            yield from constant_metrics(field, self._lowest)
            return
        mean, median = self._moments.mean, self._median.value
        if mean is not None and median is not None:
            within = min(max(median, self._lowest), self._highest)
            values = (mean, self._highest, self._lowest, within, self._moments.sample_std)
            yield from zip(_keys(field), values, strict=True)
        if self._non_finite:
            yield f"num_non_finite/{field}", self._non_finite
