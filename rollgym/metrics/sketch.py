"""Quantiles in bounded memory, to a relative accuracy of one percent.

A value is counted under itself rounded to seven significant bits, so a bucket is at most 1/128 of
its value away from everything in it, and the integers up to 128 are buckets of their own. What a
value's bucket is depends on the value alone: merging adds counts, and no order can show. (Sketches
that adapt their buckets to the data, such as t-digest, do not have this property.)

Magnitudes below `FLOOR` count as zero and magnitudes above `CEILING` as `CEILING`; 64 buckets for
each of the 104 powers of two between them, and either sign, are all the buckets there can be.
"""

from typing import Self

FLOOR = 2.0**-40
CEILING = 2.0**64

_SPLITTER = 2.0**46 + 1.0
"""Multiplying by this, and subtracting what the product exceeds the value by, loses the lower 46 of
a float's 53 bits, rounding to nearest (Veltkamp's splitting): basic operations of IEEE arithmetic
only, so the same on every machine, which a logarithm is not."""


class QuantileSketch:
    """How many values fell into each bucket."""

    __slots__ = ("_buckets", "_count")

    def __init__(self) -> None:
        self._buckets: dict[float, int] = {}
        self._count = 0

    def add(self, value: float) -> None:
        """Count a finite float."""
        if -FLOOR < value < FLOOR:
            bucket = 0.0
        elif -CEILING < value < CEILING:
            scaled = value * _SPLITTER
            bucket = scaled - (scaled - value)
        else:
            bucket = CEILING if value > 0.0 else -CEILING
        self._buckets[bucket] = self._buckets.get(bucket, 0) + 1
        self._count += 1

    def merge(self, other: Self) -> None:
        self._count += other._count
        for bucket, count in other._buckets.items():
            self._buckets[bucket] = self._buckets.get(bucket, 0) + count

    def quantile(self, q: float) -> float | None:
        """The bucket of the value at rank floor(q * (count - 1)), from 0; None of nothing.

        Raises ValueError unless 0 <= q <= 1.
        """
        if not 0.0 <= q <= 1.0:
            raise ValueError(f"a quantile lies between 0 and 1, not at {q}")
        remaining = int(q * (self._count - 1))
        for bucket in sorted(self._buckets):
            remaining -= self._buckets[bucket]
            if remaining < 0:
                return bucket
        return None
