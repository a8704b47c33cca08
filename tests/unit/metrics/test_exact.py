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


@given(many)
def test_a_sum_is_the_sum_of_the_fractions(values: list[float]) -> None:
    total = ExactSum()
    for value in values:
        total.add(value)
    assert total.value == sum(map(Fraction, values))


@given(many, many)
def test_a_merged_sum_is_the_sum_of_both(ours: list[float], theirs: list[float]) -> None:
    left, right = ExactSum(), ExactSum()
    for value in ours:
        left.add(value)
    for value in theirs:
        right.add(value)
    left.merge(right)
    assert left.value == sum(map(Fraction, ours + theirs))


def test_a_small_number_survives_between_two_large_ones() -> None:
    assert moments_of([1e308, 5e-324, -1e308]).mean == float(Fraction(5e-324) / 3)


@given(many)
def test_the_mean_is_the_float_nearest_to_the_exact_mean(values: list[float]) -> None:
    assert moments_of(values).mean == float(sum(map(Fraction, values)) / len(values))


@given(st.lists(st.floats(-1e100, 1e100), min_size=1, max_size=20))
def test_the_standard_deviation_is_that_of_the_population(values: list[float]) -> None:
    std = moments_of(values).std
    assert std == pytest.approx(statistics.pstdev(map(Fraction, values)), rel=1e-15)


def test_the_standard_deviation_of_the_largest_floats_does_not_overflow() -> None:
    largest = 1.7976931348623157e308
    assert moments_of([largest, -largest]).std == largest


@given(numbers, st.integers(1, 9))
def test_equal_values_have_a_standard_deviation_of_zero(value: float, count: int) -> None:
    assert moments_of([value] * count).std == 0.0


def test_nothing_has_neither_mean_nor_standard_deviation() -> None:
    assert (Moments().mean, Moments().std) == (None, None)


@given(st.floats(0, allow_infinity=False))
def test_the_root_of_a_square_is_exact(value: float) -> None:
    assert square_root(Fraction(value) ** 2) == value


@given(st.floats(0, allow_infinity=False))
def test_the_root_of_a_float_is_the_one_ieee_arithmetic_gives(value: float) -> None:
    assert square_root(Fraction(value)) == math.sqrt(value)


@given(st.fractions(min_value=0))
def test_no_other_float_is_nearer_to_a_root(value: Fraction) -> None:
    root = square_root(value)
    below = (Fraction(root) + Fraction(math.nextafter(root, 0.0))) / 2
    above = (Fraction(root) + Fraction(math.nextafter(root, math.inf))) / 2
    assert below**2 <= value <= above**2
