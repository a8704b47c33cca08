"""Exact sums of floats, so that the order of adding does not change the result.

Every finite float is an integer over a power of two. A sum therefore keeps one integer numerator
over the largest power of two so far, and adding is integer arithmetic: exact, commutative and
associative. Rounding happens once, in the conversion to a float. The integers stay short for
ordinary values and never exceed a few thousand bits.
"""

import sys
from collections.abc import Iterable
from fractions import Fraction
from math import isqrt
from typing import Self

_ROOT_BITS = 64
"""Bits of an integer square root: the 53 of a float, and enough more to round correctly."""
LARGEST = sys.float_info.max


class ExactSum:
    """The exact sum of the floats given so far."""

    __slots__ = ("_denominator", "_numerator")

    def __init__(self) -> None:
        self._numerator = 0
        self._denominator = 1

    @property
    def value(self) -> Fraction:
        return Fraction(self._numerator, self._denominator)

    def add(self, value: float) -> None:
        """Add a finite float."""
        self.add_ratio(*value.as_integer_ratio())

    def add_ratio(self, numerator: int, denominator: int) -> None:
        """Add a ratio whose denominator is a power of two."""
        common = self._denominator
        if denominator == common:
            self._numerator += numerator
        elif denominator < common:
            self._numerator += numerator * (common // denominator)
        else:
            self._numerator = self._numerator * (denominator // common) + numerator
            self._denominator = denominator

    def merge(self, other: Self) -> None:
        self.add_ratio(other._numerator, other._denominator)

    def subtract(self, other: Self) -> None:
        self.add_ratio(-other._numerator, other._denominator)


class Moments:
    """Count, exact sum and exact sum of squares of values, for mean and standard deviation."""

    __slots__ = ("_squares", "_total", "count")

    count: int

    def __init__(self, values: Iterable[float] = ()) -> None:
        self.count = 0
        self._total = ExactSum()
        self._squares = ExactSum()
        for value in values:
            self.add(value)

    def add(self, value: float, times: int = 1) -> None:
        """Add a finite float, as often as `times` says."""
        numerator, denominator = value.as_integer_ratio()
        self.count += times
        self._total.add_ratio(numerator * times, denominator)
        self._squares.add_ratio(numerator * numerator * times, denominator * denominator)

    @property
    def mean(self) -> float | None:
        """The exact mean, rounded once; None without values."""
        return float(self._total.value / self.count) if self.count else None

    @property
    def std(self) -> float | None:
        """The exact population standard deviation (ddof=0), rounded once; None without values."""
        if not self.count:
            return None
        mean = self._total.value / self.count
        return square_root(self._squares.value / self.count - mean * mean)

    @property
    def sample_std(self) -> float:
        """The exact sample standard deviation (ddof=1), rounded once; 0 for a single value."""
        if self.count < 2:
            return 0.0
        total = self._total.value
        return rounded_root((self._squares.value - total * total / self.count) / (self.count - 1))


def square_root(value: Fraction) -> float:
    """The float nearest to the square root of a ratio that is not negative.

    The ratio is scaled by a power of four until its integer root has more bits than a float. If the
    root is not exact, its last bit is set. That bit is far below a float's precision and tells the
    final rounding on which side of a tie the true root is.
    """
    numerator, denominator = value.numerator, value.denominator
    missing_bits = 2 * _ROOT_BITS - (numerator.bit_length() - denominator.bit_length())
    shift = max(0, missing_bits // 2 + 1)
    scaled = numerator << (2 * shift)
    root = isqrt(scaled // denominator)
    if root * root * denominator != scaled:
        root |= 1
    return root / (1 << shift)


def rounded(value: Fraction) -> float:
    """The nearest float; the largest float for larger values, because JSON has no infinity."""
    return float(max(min(value, Fraction(LARGEST)), Fraction(-LARGEST)))


def rounded_root(value: Fraction) -> float:
    """The float nearest to the square root of a value that is not negative; at most the largest."""
    return square_root(value) if value < Fraction(LARGEST) ** 2 else LARGEST
