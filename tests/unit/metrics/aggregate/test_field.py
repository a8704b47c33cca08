import math
import statistics
import sys
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollgym.metrics.aggregate import fields
from rollgym.metrics.aggregate.fields import FieldStatistics
from tests.unit.metrics.strategies import numbers

anything = numbers | st.sampled_from([math.nan, math.inf, -math.inf])


def metrics_of(values: list[float]) -> dict[str, float]:
    return entry_of(FieldStatistics.of(values))


def entry_of(field: FieldStatistics) -> dict[str, float]:
    entry: dict[str, float] = {}
    field.add_to(entry, "x")
    return entry


def test_a_field_has_mean_extremes_median_and_sample_standard_deviation() -> None:
    assert metrics_of([2.0, 4.0, 4.0, 10.0]) == {
        "mean/x": 5.0,
        "max/x": 10.0,
        "min/x": 2.0,
        "median/x": 4.0,
        "std/x": math.sqrt(12.0),
    }


def test_values_that_are_not_finite_are_counted_and_poison_nothing() -> None:
    assert metrics_of([1.0, math.nan, 3.0, -math.inf]) == {
        **metrics_of([1.0, 3.0]),
        "num_non_finite/x": 2,
    }
    assert metrics_of([math.nan]) == {"num_non_finite/x": 1}
    assert metrics_of([]) == {}
    assert metrics_of([0.3])["std/x"] == 0.0


@settings(max_examples=40)
@given(st.lists(numbers, min_size=2))
def test_the_numbers_are_exact_and_rounded_once(values: list[float]) -> None:
    metrics = metrics_of(values)
    exact = [Fraction(value) for value in values]
    assert metrics["mean/x"] == float(sum(exact) / len(exact))
    assert metrics["median/x"] == float(statistics.median(exact))
    assert (metrics["min/x"], metrics["max/x"]) == (min(values), max(values))
    variance = statistics.variance(exact)
    assert metrics["std/x"] == pytest.approx(_root(variance), rel=1e-15)


def _root(variance: Fraction) -> float:
    """In float arithmetic, scaled clear of its limits."""
    if not variance:
        return 0.0
    exponent = (variance.numerator.bit_length() - variance.denominator.bit_length()) // 2
    mantissa = math.sqrt(float(variance / Fraction(4) ** exponent))
    return min(math.ldexp(mantissa / 2, exponent) * 2, sys.float_info.max)


def test_a_standard_deviation_beyond_every_float_is_the_largest() -> None:
    largest = sys.float_info.max
    assert metrics_of([largest, -largest])["std/x"] == largest
    assert metrics_of([largest, -largest])["median/x"] == 0.0


@settings(max_examples=40)
@given(st.lists(anything, max_size=30), st.randoms(use_true_random=False))
def test_the_order_does_not_show(values: list[float], random: object) -> None:
    shuffled = list(values)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert metrics_of(shuffled) == metrics_of(values)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fields, "EXACT_VALUES", 10)  # of more values, the median is sketched
        assert metrics_of(shuffled) == metrics_of(values)


@settings(max_examples=40)
@given(st.lists(st.floats(-1e6, 1e6) | st.integers(0, 3).map(float), min_size=11, max_size=40))
def test_the_median_of_many_is_within_one_percent_of_the_middle_values(
    values: list[float],
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fields, "EXACT_VALUES", 10)
        found = metrics_of(values)["median/x"]
    ordered = sorted(values)
    middle = ordered[(len(values) - 1) // 2], ordered[len(values) // 2]
    allowed = 0.01 * sum(map(abs, middle)) / 2 + 1e-9
    assert abs(found - sum(middle) / 2) <= allowed


def test_ten_thousand_values_have_an_exact_median_and_hold_no_more() -> None:
    values = [index * 1.001 for index in range(fields.EXACT_VALUES)]
    statistics_of_all = FieldStatistics.of(values)
    assert entry_of(statistics_of_all)["median/x"] == statistics.median(values)
    statistics_of_all.add(0.0)
    assert not statistics_of_all._waiting
    assert entry_of(statistics_of_all)["median/x"] == pytest.approx(5_004, rel=0.01)
