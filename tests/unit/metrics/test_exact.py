import math
import statistics
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollgym.metrics.exact import ExactSum, Moments, square_root
from tests.unit.metrics.strategies import numbers

many = st.lists(numbers, min_size=1, max_size=20)


def moments_of(values: list[float]) -> Moments:
    moments = Moments()
    for value in values:
        moments.add(value)
    return moments


@given(many, many)
def test_a_merged_sum_is_the_sum_of_both(ours: list[float], theirs: list[float]) -> None:
    left, right = ExactSum(), ExactSum()
    for value in ours:
        left.add(value)
    for value in theirs:
        right.add(value)
    left.merge(right)
    assert left.value == sum(map(Fraction, ours + theirs))


@given(st.lists(st.floats(-1e100, 1e100), min_size=1, max_size=20))
def test_mean_and_standard_deviation_are_exact_and_rounded_once(values: list[float]) -> None:
    moments = moments_of(values)
    assert moments.mean == float(sum(map(Fraction, values)) / len(values))
    assert moments.std == pytest.approx(statistics.pstdev(map(Fraction, values)), rel=1e-15)


def test_extreme_values_neither_vanish_nor_overflow() -> None:
    largest = 1.7976931348623157e308
    assert moments_of([1e308, 5e-324, -1e308]).mean == float(Fraction(5e-324) / 3)
    assert moments_of([largest, -largest]).std == largest
    assert moments_of([0.1] * 7).std == 0.0
    assert (Moments().mean, Moments().std) == (None, None)


@given(st.floats(0, allow_infinity=False))
def test_a_root_is_the_one_of_ieee_arithmetic(value: float) -> None:
    assert square_root(Fraction(value) ** 2) == value
    assert square_root(Fraction(value)) == math.sqrt(value)


@given(st.fractions(min_value=0))
def test_no_other_float_is_nearer_to_a_root(value: Fraction) -> None:
    root = square_root(value)
    below = (Fraction(root) + Fraction(math.nextafter(root, 0.0))) / 2
    above = (Fraction(root) + Fraction(math.nextafter(root, math.inf))) / 2
    assert below**2 <= value <= above**2
