import math

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from rollgym.metrics.distribution import Distribution
from tests.unit.metrics.strategies import numbers


def distribution_of(values: list[float]) -> Distribution:
    distribution = Distribution()
    for value in values:
        distribution.add(value)
    return distribution


def test_a_distribution_says_where_its_values_lie() -> None:
    summary = distribution_of([float(value) for value in range(101)]).summary()
    assert (summary.count, summary.mean, summary.min, summary.max) == (101, 50.0, 0.0, 100.0)
    assert (summary.p10, summary.p50, summary.p90, summary.p99) == (10.0, 50.0, 90.0, 99.0)
    assert summary.std == math.sqrt(850)
    empty = Distribution().summary()
    assert set(msgspec.structs.astuple(empty)) == {0, None}


@given(st.lists(numbers, min_size=1), st.floats(0, 1))
def test_a_quantile_lies_between_the_extremes(values: list[float], q: float) -> None:
    quantile = distribution_of(values).quantile(q)
    assert quantile is not None
    assert min(values) <= quantile <= max(values)


def test_integers_and_negative_zero_count_as_the_float_they_are_read_back_as() -> None:
    assert distribution_of([2**60 + 1]).summary() == distribution_of([2.0**60]).summary()
    for values in ([-0.0], [0.0, -0.0], [-0.0, 0.0]):
        low, high = distribution_of(values).min, distribution_of(values).max
        assert low is not None
        assert high is not None
        assert math.copysign(1.0, low) == math.copysign(1.0, high) == 1.0
