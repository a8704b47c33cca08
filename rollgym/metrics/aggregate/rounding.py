"""From an exact ratio to a float, once, at the very end."""

import sys
from fractions import Fraction

from rollgym.metrics.exact import square_root

LARGEST = sys.float_info.max


def rounded(value: Fraction) -> float:
    """The nearest float; beyond all of them the largest, because JSON has no infinity."""
    return float(max(min(value, Fraction(LARGEST)), Fraction(-LARGEST)))


def rounded_root(value: Fraction) -> float:
    """The float nearest to the square root, no more than the largest; not of negative values."""
    return square_root(value) if value < Fraction(LARGEST) ** 2 else LARGEST
