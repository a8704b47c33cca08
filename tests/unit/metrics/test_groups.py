from collections.abc import Iterable
from fractions import Fraction
from itertools import combinations

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from rollgym.metrics.groups import Groups
from rollgym.metrics.summary import GroupCounts
from rollgym.records import Attempt, Completed
from tests.unit.metrics.strategies import (
    REWARDED,
    UNREWARDED,
    completed,
    failed,
    group,
    runs,
)


def groups_of(attempts: Iterable[Attempt]) -> Groups:
    groups = Groups()
    for record in attempts:
        if record.final:
            groups.add(record)
    return groups


def average(values: list[Fraction]) -> float:
    return float(sum(values) / len(values))


@given(st.lists(st.lists(completed, min_size=1, max_size=6), min_size=1, max_size=3))
def test_pass_at_k_is_the_share_of_draws_of_k_with_a_success(
    members: list[list[Completed]],
) -> None:
    groups = groups_of(
        record for task, outcomes in enumerate(members) for record in group(*outcomes, task=task)
    )
    for k, estimate in groups.totals().pass_at_k().items():
        shares = []
        for outcomes in members:
            if len(outcomes) >= k:
                draws = list(combinations(outcomes, k))
                passed = sum(any(drawn.succeeded for drawn in draw) for draw in draws)
                shares.append(Fraction(passed, len(draws)))
        assert estimate == average(shares)


@given(st.lists(st.lists(completed, min_size=1, max_size=6), min_size=1, max_size=3))
def test_mean_at_k_averages_the_groups_and_not_the_rollouts(
    members: list[list[Completed]],
) -> None:
    groups = groups_of(
        record for task, outcomes in enumerate(members) for record in group(*outcomes, task=task)
    )
    for k, estimate in groups.totals().mean_at_k().items():
        means = [
            sum((Fraction(outcome.reward) for outcome in outcomes), Fraction()) / len(outcomes)
            for outcomes in members
            if len(outcomes) >= k
        ]
        assert estimate == average(means)


def test_k_takes_the_powers_of_two_and_the_largest_group() -> None:
    assert list(groups_of(group(*[REWARDED] * 11)).totals().pass_at_k()) == [1, 2, 4, 8, 11]
    assert list(groups_of(group(*[REWARDED] * 8)).totals().mean_at_k()) == [1, 2, 4, 8]
    assert groups_of(group(failed())).totals().pass_at_k() == {}
    assert Groups().totals().pass_at_k() == {}


def test_rollouts_without_a_reward_make_the_group_smaller_and_not_worse() -> None:
    histogram = groups_of(group(REWARDED, UNREWARDED, failed(), failed())).totals()
    assert histogram.pass_at_k() == {1: 0.5, 2: 1.0}
    assert histogram.mean_at_k() == {1: 0.5, 2: 0.5}
    assert histogram.counts() == GroupCounts(seen=1, complete=0)


@settings(max_examples=40)
@given(runs())
def test_closing_a_group_does_not_change_a_number(attempts: list[Attempt]) -> None:
    closing = groups_of(attempts).totals()
    larger = [msgspec.structs.replace(each, repeats=each.repeats + 1) for each in attempts]
    open_for_ever = groups_of(larger).totals()
    assert closing.counts().seen == open_for_ever.counts().seen
    assert closing.pass_at_k() == open_for_ever.pass_at_k()
    assert closing.mean_at_k() == open_for_ever.mean_at_k()


def test_of_a_closed_group_only_what_another_outcome_could_change_is_held() -> None:
    groups = Groups()
    for task in range(100):
        outcomes = (REWARDED, REWARDED) if task else (REWARDED, failed())
        for record in group(*outcomes, task=task):
            groups.add(record)
    assert not groups._open
    assert set(groups._short) == {0}
    assert groups.totals().counts() == GroupCounts(seen=100, complete=99)


@settings(max_examples=40)
@given(st.lists(completed, min_size=1, max_size=4), st.data())
def test_a_group_that_is_opened_again_ends_with_the_numbers_of_its_last_outcomes(
    outcomes: list[Completed], data: st.DataObject
) -> None:
    """Whether the old outcome was the first or the last of the group."""
    groups, repeats = groups_of(group(REWARDED, failed(), task=50)), len(outcomes)
    broken = data.draw(st.sets(st.integers(0, repeats - 1)))
    first = [failed() if place in broken else each for place, each in enumerate(outcomes)]
    for record in group(*first):
        groups.add(record)
    for record in group(*outcomes):
        if record.repeat in broken:
            groups.retract(record.task, repeats)
            groups.add(record)
    again = groups_of([*group(REWARDED, failed(), task=50), *group(*outcomes)]).totals()
    assert groups.totals().counts() == again.counts()
    assert groups.totals().pass_at_k() == again.pass_at_k()
    assert groups.totals().mean_at_k() == again.mean_at_k()
