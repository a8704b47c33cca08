"""Dividing by weight: exact, deterministic and fair."""

from collections import Counter
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from webgym.utils.rollout_sampler import Weight, deal, divide

TOTALS = st.integers(0, 5000)
WHOLE = st.lists(st.integers(0, 1000), min_size=1, max_size=12).filter(any)
DECIMAL = st.lists(st.decimals(0, 100, places=2).map(float), min_size=1, max_size=12).filter(any)
WEIGHTS: st.SearchStrategy[list[Weight]] = st.one_of(WHOLE, DECIMAL)


def exact(weight: Weight) -> Fraction:
    return Fraction(str(weight))


def test_parts_are_those_of_the_largest_remainder() -> None:
    cases: list[tuple[int, tuple[Weight, ...], tuple[int, ...]]] = [
        (64, (2, 1, 1), (32, 16, 16)),
        (10, (1, 1, 1), (4, 3, 3)),
        (2, (1, 1, 1), (1, 1, 0)),
        (5, (1, 0, 1), (3, 0, 2)),
        (7, (3,), (7,)),
        (0, (2, 1), (0, 0)),
        (3, (0.1, 0.2), (1, 2)),
    ]
    for total, weights, parts in cases:
        assert divide(total, weights) == parts


@given(TOTALS, WEIGHTS)
def test_the_parts_add_up(total: int, weights: list[Weight]) -> None:
    assert sum(divide(total, weights)) == total


@given(TOTALS, WEIGHTS)
def test_every_part_is_within_one_of_its_exact_share(total: int, weights: list[Weight]) -> None:
    whole = sum(map(exact, weights))
    for part, weight in zip(divide(total, weights), weights, strict=True):
        assert abs(part - total * exact(weight) / whole) < 1


@given(TOTALS, WEIGHTS)
def test_more_weight_never_gets_less(total: int, weights: list[Weight]) -> None:
    parts = divide(total, weights)
    by_weight = sorted(zip(map(exact, weights), parts, strict=True), key=lambda pair: pair[0])
    for (lighter, small), (heavier, large) in pairwise(by_weight):
        if lighter < heavier:
            assert small <= large


@given(TOTALS, WEIGHTS)
def test_no_weight_gets_nothing(total: int, weights: list[Weight]) -> None:
    for part, weight in zip(divide(total, weights), weights, strict=True):
        assert weight or part == 0


@given(TOTALS, WHOLE.flatmap(lambda weights: st.tuples(st.just(weights), st.permutations(weights))))
def test_the_order_of_the_weights_decides_only_between_equal_remainders(
    total: int, orders: tuple[list[int], list[int]]
) -> None:
    remainders = [Fraction(total * weight, sum(orders[0])) % 1 for weight in orders[0]]
    assume(len(set(remainders)) == len(remainders))
    one, other = (dict(zip(weights, divide(total, weights), strict=True)) for weights in orders)
    assert one == other


@given(TOTALS, WHOLE, st.integers(1, 50))
def test_only_the_proportion_of_the_weights_counts(
    total: int, weights: list[int], factor: int
) -> None:
    assert divide(total, weights) == divide(total, [factor * weight for weight in weights])


@given(st.integers(1, 20))
def test_of_equals_the_first_get_what_is_left(count: int) -> None:
    for left in range(count):
        assert divide(count + left, [1] * count) == (2,) * left + (1,) * (count - left)


def test_weights_of_which_none_counts_divide_nothing() -> None:
    cases: list[tuple[Weight, ...]] = [(), (0,), (0, 0.0)]
    for weights in cases:
        with pytest.raises(ValueError, match="one weight must be above 0"):
            divide(4, weights)


def test_what_is_no_weight_is_refused() -> None:
    cases: list[float] = [-1, float("nan"), float("inf")]
    for weight in cases:
        with pytest.raises(ValueError, match="not a weight"):
            divide(4, (1, weight))


def test_less_than_nothing_cannot_be_divided() -> None:
    with pytest.raises(ValueError, match="negative"):
        divide(-1, (1,))


@given(st.integers(0, 300), WEIGHTS)
def test_everybody_is_dealt_as_much_as_their_part(count: int, weights: list[Weight]) -> None:
    dealt = Counter(deal(count, weights))
    assert tuple(dealt[owner] for owner in range(len(weights))) == divide(count, weights)


def test_dealing_spreads_everybodys_things_over_the_row() -> None:
    assert list(deal(8, (2, 1, 1))) == [0, 1, 2, 0, 0, 1, 2, 0]


@given(st.integers(1, 200), st.lists(st.integers(1, 9), min_size=1, max_size=6))
def test_the_first_half_of_the_row_is_shared_like_the_whole(count: int, weights: list[int]) -> None:
    owners = list(deal(count, weights))
    half = Counter(owners[: count // 2])
    for owner, part in enumerate(divide(count, weights)):
        assert abs(half[owner] - part / 2) <= 1 + len(weights) / 2
