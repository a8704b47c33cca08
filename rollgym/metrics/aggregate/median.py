"""The median: exact of a few values, sketched of many.

Up to `EXACT_VALUES` values are kept as they are. When there is one more, all go into a quantile
sketch, and from then on the median is within one percent. Which of the two it is depends on how
many values there are and on nothing else, so no order of adding or merging can show.
"""

from array import array
from collections.abc import Sequence
from fractions import Fraction
from typing import Self

from rollgym.metrics.aggregate.rounding import rounded
from rollgym.metrics.sketch import QuantileSketch

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
            self._bound()
        else:
            self._sketch.add(value)

    def merge(self, other: Self) -> None:
        """Add everything the other has seen; the other is left as it is."""
        self._count += other._count
        if other._sketch is not None:
            self._sketched().merge(other._sketch)
        elif self._sketch is None:
            self._values.extend(other._values)
            self._bound()
        else:
            _fill(self._sketch, other._values)

    @property
    def value(self) -> float | None:
        """Halfway between the two middle values where their number is even; None of nothing."""
        lower, upper = self._at((self._count - 1) // 2), self._at(self._count // 2)
        if lower is None or upper is None:
            return None
        return rounded((Fraction(lower) + Fraction(upper)) / 2)

    def _at(self, rank: int) -> float | None:
        """The value at a rank, from 0."""
        if not self._count:
            return None
        if self._sketch is None:
            return sorted(self._values)[rank]
        # The sketch cuts off to a rank, so we aim at the middle of it, clear of float rounding.
        return self._sketch.quantile((rank + 0.5) / (self._count - 1))

    def _bound(self) -> None:
        if len(self._values) > EXACT_VALUES:
            self._sketched()

    def _sketched(self) -> QuantileSketch:
        if self._sketch is None:
            self._sketch = QuantileSketch()
            _fill(self._sketch, self._values)
            self._values = array("d")
        return self._sketch


def _fill(sketch: QuantileSketch, values: Sequence[float]) -> None:
    for value in values:
        sketch.add(value)
