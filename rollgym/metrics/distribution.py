"""How a number of the rollouts is distributed: exact moments and extremes, sketched quantiles."""

from math import inf
from typing import Self

from rollgym.metrics.exact import Moments
from rollgym.metrics.sketch import QuantileSketch
from rollgym.metrics.summary import DistributionSummary


class Distribution:
    """A stream of finite numbers, summed up in bounded memory.

    Integers count as the float a journal would give back for them, and -0.0 as 0.0, between which
    a minimum could not choose.
    """

    __slots__ = ("_highest", "_lowest", "_moments", "_sketch")

    def __init__(self) -> None:
        self._moments = Moments()
        self._sketch = QuantileSketch()
        self._lowest = inf
        self._highest = -inf

    def add(self, value: float) -> None:
        value = float(value) + 0.0
        self._moments.add(value)
        self._sketch.add(value)
        self._lowest = min(self._lowest, value)
        self._highest = max(self._highest, value)

    def merge(self, other: Self) -> None:
        """Add everything the other has seen."""
        self._moments.merge(other._moments)
        self._sketch.merge(other._sketch)
        self._lowest = min(self._lowest, other._lowest)
        self._highest = max(self._highest, other._highest)

    @property
    def count(self) -> int:
        return self._moments.count

    @property
    def mean(self) -> float | None:
        """The exact mean, rounded once; None of nothing, like everything below."""
        return self._moments.mean

    @property
    def std(self) -> float | None:
        """The population standard deviation (ddof=0)."""
        return self._moments.std

    @property
    def min(self) -> float | None:
        return self._lowest if self.count else None

    @property
    def max(self) -> float | None:
        return self._highest if self.count else None

    def quantile(self, q: float) -> float | None:
        """The value at rank floor(q * (count - 1)), from 0, to within one percent of itself.

        Never outside the extremes. Raises ValueError unless 0 <= q <= 1.
        """
        bucket = self._sketch.quantile(q)
        return None if bucket is None else min(max(bucket, self._lowest), self._highest)

    def summary(self) -> DistributionSummary:
        return DistributionSummary(
            count=self.count,
            mean=self.mean,
            std=self.std,
            min=self.min,
            max=self.max,
            p10=self.quantile(0.10),
            p50=self.quantile(0.50),
            p90=self.quantile(0.90),
            p99=self.quantile(0.99),
        )
