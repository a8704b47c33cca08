"""The distribution of a number over rollouts: exact moments and extremes, sketched quantiles.

*Quantiles* have a relative accuracy of one percent in bounded memory. A value is counted under
itself rounded to seven significant bits, so a bucket is at most 1/128 of its value away from
every value in it, and the integers up to 128 have buckets of their own. The bucket of a value
depends on the value alone, so the order of adding does not matter. (Sketches that adapt their
buckets to the data, such as t-digest, do not have this property.) Magnitudes below `FLOOR` count as
zero and magnitudes above `CEILING` as `CEILING`; 64 buckets for each of the 104 powers of two
between them, for either sign, bound the number of buckets.

*Names* come from workers and verifiers, which may put something unbounded into them, such as the
id of a task. `ByName` keeps only the names that come first in the alphabet. A kept name was among
the first at every earlier moment, so its numbers are complete, and the kept names do not depend on
the order of adding.
"""

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, KeysView, Mapping
from math import inf
from typing import Generic, Protocol, TypeVar

from rollgym.metrics.exact import Moments
from rollgym.metrics.summary import DistributionSummary

NAME_LIMIT = 256
MOST_WAITING = 1_000
FLOOR = 2.0**-40
CEILING = 2.0**64

_SPLITTER = 2.0**46 + 1.0
"""The factor of Veltkamp's splitting, which rounds away the lower 46 of a float's 53 bits. It uses
basic operations of IEEE arithmetic only, so it gives the same result on every machine; a logarithm
would not."""


class QuantileSketch:
    """The number of values in each bucket."""

    __slots__ = ("_buckets", "_count")

    def __init__(self) -> None:
        self._buckets: dict[float, int] = {}
        self._count = 0

    def add(self, value: float, times: int = 1) -> None:
        """Count a finite float, as often as `times` says."""
        if -FLOOR < value < FLOOR:
            bucket = 0.0
        elif -CEILING < value < CEILING:
            scaled = value * _SPLITTER
            bucket = scaled - (scaled - value)
        else:
            bucket = CEILING if value > 0.0 else -CEILING
        self._buckets[bucket] = self._buckets.get(bucket, 0) + times
        self._count += times

    def quantile(self, q: float) -> float | None:
        """The bucket of the value at rank floor(q * (count - 1)), from 0; None without values.

        Raises ValueError unless 0 <= q <= 1.
        """
        if not 0.0 <= q <= 1.0:
            raise ValueError(f"the quantile {q} must be from 0 to 1")
        remaining = int(q * (self._count - 1))
        for bucket in sorted(self._buckets):
            remaining -= self._buckets[bucket]
            if remaining < 0:
                return bucket
        return None


class CountedValues:
    """The moments, extremes and quantiles of values, of which equal ones are added together."""

    __slots__ = ("highest", "lowest", "moments", "sketch")

    def __init__(self) -> None:
        self.moments = Moments()
        self.sketch = QuantileSketch()
        self.lowest = inf
        self.highest = -inf

    def add_all(self, values: Iterable[float]) -> None:
        for given, times in Counter(values).items():
            value = given + 0.0
            self.moments.add(value, times)
            self.sketch.add(value, times)
            self.lowest = min(self.lowest, value)
            self.highest = max(self.highest, value)

    def at_rank(self, rank: int) -> float | None:
        """About the value at a rank, counted from 0."""
        # The sketch rounds down to a rank, so aim at the middle of it, clear of float rounding.
        return self.sketch.quantile((rank + 0.5) / (self.moments.count - 1))


class Distribution:
    """Summary statistics of a stream of finite numbers, in bounded memory.

    Integers count as the float that a journal would return for them, and -0.0 counts as 0.0, so
    that a minimum is unambiguous. Values wait until there are many, or until a number is asked for:
    there are mostly few different ones.
    """

    __slots__ = ("_counted", "_waiting")

    def __init__(self) -> None:
        self._counted = CountedValues()
        self._waiting = array("d")

    def add(self, value: float) -> None:
        self._waiting.append(value)
        if len(self._waiting) >= MOST_WAITING:
            self._count()

    @property
    def count(self) -> int:
        return self._count().moments.count

    @property
    def mean(self) -> float | None:
        """The exact mean, rounded once; None without values, like everything below."""
        return self._count().moments.mean

    @property
    def std(self) -> float | None:
        """The population standard deviation (ddof=0)."""
        return self._count().moments.std

    @property
    def min(self) -> float | None:
        return self._counted.lowest if self.count else None

    @property
    def max(self) -> float | None:
        return self._counted.highest if self.count else None

    def quantile(self, q: float) -> float | None:
        """The value at rank floor(q * (count - 1)), from 0, to within one percent of itself.

        Never outside the extremes. Raises ValueError unless 0 <= q <= 1.
        """
        counted = self._count()
        bucket = counted.sketch.quantile(q)
        return None if bucket is None else min(max(bucket, counted.lowest), counted.highest)

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

    def _count(self) -> CountedValues:
        """Count the values that wait."""
        if self._waiting:
            self._counted.add_all(self._waiting)
            self._waiting = array("d")
        return self._counted


class _Statistic(Protocol):
    def add(self, value: float, /) -> None: ...


StatisticT = TypeVar("StatisticT", bound=_Statistic)


class ByName(Generic[StatisticT]):
    """A statistic for each of the `NAME_LIMIT` names that come first in the alphabet.

    `truncated` says that there were more names than are kept.
    """

    __slots__ = ("_by_name", "_make", "truncated")

    def __init__(self, make: Callable[[], StatisticT]) -> None:
        self.truncated = False
        self._make = make
        self._by_name: dict[str, StatisticT] = {}

    @property
    def names(self) -> KeysView[str]:
        """The names that are kept."""
        return self._by_name.keys()

    def add(self, numbers: Mapping[str, float]) -> None:
        for name, value in numbers.items():
            statistic = self._by_name.get(name) or self._new(name)
            if statistic is not None:
                statistic.add(value)

    def items(self) -> Iterator[tuple[str, StatisticT]]:
        """The statistics in the order of their names."""
        for name in sorted(self._by_name):
            yield name, self._by_name[name]

    def _new(self, name: str) -> StatisticT | None:
        """Add a name; if there are too many, drop the last one, or return None for this one."""
        if len(self._by_name) >= NAME_LIMIT:
            self.truncated = True
            last = max(self._by_name)
            if name > last:
                return None
            del self._by_name[last]
        statistic = self._by_name[name] = self._make()
        return statistic
