from collections.abc import Iterable
from fractions import Fraction
from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from rollgym.metrics.groups import Groups
from rollgym.metrics.summary import GroupCounts
from rollgym.records import Attempt, Completed
from tests.unit.metrics.strategies import (
    REWARDED,
    UNREWARDED,
    attempt,
    completed,
    failed,
    group,
    runs,
)


def groups_of(attempts: Iterable[Attempt], *, resolved: bool = True) -> Groups:
    groups = Groups()
    for record in attempts:
        if record.final:
            groups.add(record, resolved=resolved)
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
    open_for_ever = groups_of(attempts, resolved=False).totals()
    assert closing.counts() == open_for_ever.counts()
    assert closing.pass_at_k() == open_for_ever.pass_at_k()
    assert closing.mean_at_k() == open_for_ever.mean_at_k()


def test_a_closed_group_is_not_held() -> None:
    groups = Groups()
    for task in range(100):
        for record in group(REWARDED, failed(), task=task):
            groups.add(record, resolved=True)
    assert not groups._open
    assert groups.totals().counts().seen == 100


def test_a_group_that_will_be_resolved_again_stays_open() -> None:
    groups = Groups()
    groups.add(attempt(failed()), resolved=False)
    assert groups.totals().counts() == GroupCounts(seen=1, complete=0)
    groups.add(attempt(REWARDED), resolved=True)
    assert not groups._open
    assert groups.totals().counts() == GroupCounts(seen=1, complete=1)
