import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollgym.metrics.distribution import CEILING, FLOOR, QuantileSketch

magnitudes = st.floats(FLOOR, CEILING)
in_range = magnitudes | magnitudes.map(lambda magnitude: -magnitude) | st.just(0.0)


def sketch_of(values: list[float]) -> QuantileSketch:
    sketch = QuantileSketch()
    for value in values:
        sketch.add(value)
    return sketch


@given(st.lists(in_range, min_size=1), st.floats(0, 1))
def test_a_quantile_is_within_one_percent_of_the_exact_one(values: list[float], q: float) -> None:
    exact = sorted(values)[int(q * (len(values) - 1))]
    assert sketch_of(values).quantile(q) == pytest.approx(exact, rel=0.01, abs=0.0)


def test_buckets_are_ordered_and_exact_for_small_integers_and_simple_shares() -> None:
    own = [-3.0, *(float(value) for value in range(129)), 0.5, 0.25, 0.75, 1000.0]
    for value in own:
        assert sketch_of([value]).quantile(0.5) == value
    outside = [(5e-324, 0.0), (-1e-20, 0.0), (-0.0, 0.0), (1e308, CEILING), (-1e308, -CEILING)]
    for value, bucket in outside:
        assert sketch_of([value]).quantile(0.5) == bucket
    assert QuantileSketch().quantile(0.5) is None


def test_the_number_of_buckets_is_bounded_by_the_range() -> None:
    octave = sketch_of([1.0 + step / 10_000 for step in range(10_000)])
    assert len(octave._buckets) == 65


def test_a_quantile_outside_the_unit_interval_is_refused() -> None:
    cases: list[float] = [-0.1, 1.1, float("nan")]
    for q in cases:
        with pytest.raises(ValueError, match="must be from 0 to 1"):
            sketch_of([1.0]).quantile(q)
