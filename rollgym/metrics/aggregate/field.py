"""The statistics of one number over the rollouts that have it.

A rollout without the field is no zero: it is left out of that field's numbers. A value that is not
finite is left out, too, and counted.
"""

from collections.abc import Iterable, Iterator
from functools import lru_cache
from math import inf, isfinite
from typing import Self

from rollgym.metrics.aggregate.median import Median
from rollgym.metrics.aggregate.rounding import rounded_root
from rollgym.metrics.exact import Moments


class _SampleMoments(Moments):
    """Moments that also know the standard deviation of a sample."""

    __slots__ = ()

    @property
    def sample_std(self) -> float:
        """With ddof=1, of exactly these values, rounded once; 0 of a single value."""
        if self.count < 2:
            return 0.0
        total = self._total.value
        return rounded_root((self._squares.value - total * total / self.count) / (self.count - 1))


def constant_metrics(field: str, value: float) -> Iterator[tuple[str, float]]:
    """The numbers of a field that is the same finite value everywhere."""
    return zip(_keys(field), (value, value, value, value, 0.0), strict=True)


@lru_cache(maxsize=1024)
def _keys(field: str) -> tuple[str, ...]:
    return tuple(f"{name}/{field}" for name in ("mean", "max", "min", "median", "std"))


class FieldStatistics:
    """Mean, extremes, median and sample standard deviation of a stream, in bounded memory.

    All are exact, rounded once, and independent of the order, but for the median of more than ten
    thousand values (see `rollgym.metrics.aggregate.median`).
    """

    __slots__ = ("_highest", "_lowest", "_median", "_moments", "_non_finite")

    def __init__(self) -> None:
        self._moments = _SampleMoments()
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

    def merge(self, other: Self) -> None:
        """Add everything the other has seen; the other is left as it is."""
        self._moments.merge(other._moments)
        self._median.merge(other._median)
        self._lowest = min(self._lowest, other._lowest)
        self._highest = max(self._highest, other._highest)
        self._non_finite += other._non_finite

    def metrics(self, field: str) -> Iterator[tuple[str, float]]:
        """The numbers there are, each under its key, such as `mean/reward`."""
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
