"""Histograms, and changes over time."""

from itertools import pairwise
from math import isfinite
from sys import float_info

from hypothesis import given
from hypothesis import strategies as st

from rollgym.viewer.queries.charts import (
    MOST_BINS,
    MOST_POINTS,
    Histogram,
    TimePoint,
    histogram,
    over_time,
)

INTEGERS = st.lists(st.integers(-(2**63), 2**63 - 1) | st.none(), max_size=60)
FLOATS = st.lists(st.floats(allow_nan=False) | st.none(), max_size=60)
LARGEST = float_info.max
SHARES = st.lists(st.floats(0, 1) | st.none(), max_size=60)


def made(values: list[float], *, share: bool = False) -> Histogram:
    found = histogram(values, share=share)
    assert found is not None
    return found


def edges(found: Histogram) -> list[float]:
    return [found.bins[0].low, *(each.high for each in found.bins)]


@given(INTEGERS | FLOATS | SHARES, st.booleans())
def test_a_range_from_min_to_max_of_a_bar_holds_what_is_in_it(
    values: list[float | None], share: bool
) -> None:
    found = histogram(values, share=share)
    numbers = [value for value in values if value is not None and isfinite(value)]
    if found is None:
        assert not numbers
        return
    assert found.count == len(numbers) == sum(each.count for each in found.bins)
    assert len(found.bins) <= MOST_BINS
    assert (found.min, found.max) == (min(numbers), max(numbers))
    for each in found.bins:
        if each.min is None or each.max is None:
            assert each.count == 0
        else:
            assert sum(each.min <= number <= each.max for number in numbers) == each.count


@given(st.lists(st.integers(0, 10**6), min_size=1))
def test_whole_numbers_have_whole_edges(values: list[int]) -> None:
    assert all(isinstance(edge, int) for edge in edges(made(list(values))))


@given(st.lists(st.floats(-1e6, 1e6), min_size=2))
def test_bars_follow_each_other_and_hold_what_is_between_their_edges(values: list[float]) -> None:
    found = made(values)
    for one, next_one in pairwise(found.bins):
        assert one.high == next_one.low
    for each in found.bins:
        if each.min is not None and each.max is not None:
            assert each.low <= each.min
            assert each.max <= each.high


def test_numbers_may_be_as_large_as_can_be() -> None:
    for count in [1, 2, 6]:
        for least in [LARGEST, 1.7976931348623153e308, -LARGEST]:
            found = made([least] * count + [LARGEST] * count)
            assert least <= found.mean <= LARGEST
            assert sum(each.count for each in found.bins) == 2 * count


def test_nothing_has_no_histogram() -> None:
    assert histogram([]) is None
    assert histogram([None, float("inf"), float("-inf")]) is None


def test_a_single_value_has_one_bar() -> None:
    found = made([3, 3])
    assert [(each.low, each.high, each.count) for each in found.bins] == [(3, 3, 2)]


def test_a_share_has_twenty_bars_from_0_to_1() -> None:
    found = made([0.0, 0.15, 1.0, 1.0], share=True)
    assert edges(found) == [number / 20 for number in range(21)]
    assert [place for place, each in enumerate(found.bins) if each.count] == [0, 3, 19]
    assert made([0.5, 2.5], share=True).bins[-1].high == 2.5


def test_few_whole_numbers_have_a_bar_each() -> None:
    found = made([2, 3, 3, 5])
    assert [(each.low, each.count) for each in found.bins] == [(2, 1), (3, 2), (4, 0), (5, 1)]


def test_values_far_above_all_others_are_in_one_last_bar() -> None:
    found = made([*(number % 20 for number in range(1000)), 9_000])
    assert found.bins[-1].high == 9_000
    assert found.bins[-1].count == 1
    assert len(found.bins) > 15


def test_figures_are_values_that_occur() -> None:
    found = made([1, 2, 3, 4])
    assert (found.mean, found.median, found.p90) == (2.5, 2, 3)


def test_numbers_at_the_ends_of_what_floats_can_hold_do() -> None:
    for values in [[-1.7e308, 1.7e308], [0.0, 5e-324], [1e16, 1e16 + 2]]:
        assert made(values).count == 2


def test_portions_of_time_are_equal_and_empty_ones_are_reported() -> None:
    started = [second * 1_000_000 for second in (100, 100, 110, 159)]
    found = over_time(range(4), started, [1, 0, None, 1], [1.0, 0.0, None, 1.0])
    assert found.by == "time"
    assert len(found.points) == MOST_POINTS
    after = found.points[1].begin
    assert found.points[0] == TimePoint(100.0, after, 100.0, after - 1e-6, 2, 1, 2, 0.5)
    assert found.points[-1].rollouts == 1
    assert sum(point.rollouts for point in found.points) == 4
    assert [point.mean_reward for point in found.points if point.rollouts] == [0.5, None, 1.0]


def test_one_moment_is_one_portion() -> None:
    found = over_time([1, 2], [5, 5], [1, 0], [1.0, 0.0])
    assert [point.rollouts for point in found.points] == [2]


def test_without_times_the_records_are_divided() -> None:
    found = over_time(range(100), [None] * 100, [1] * 50 + [0] * 50, [1.0] * 50 + [0.0] * 50)
    assert found.by == "order"
    assert [(point.begin, point.end) for point in found.points[:2]] == [(1, 1), (2, 3)]
    assert found.points[-1].end == 100
    assert sum(point.rollouts for point in found.points) == 100
    assert (found.points[0].mean_reward, found.points[-1].mean_reward) == (1.0, 0.0)


def test_entries_without_a_time_are_left_out_where_most_have_one() -> None:
    found = over_time([1, 2, 3], [1, None, 2], [1, 1, 1], [None, None, None])
    assert sum(point.rollouts for point in found.points) == 2


def test_nothing_has_no_points() -> None:
    assert over_time([], [], [], []).points == ()
