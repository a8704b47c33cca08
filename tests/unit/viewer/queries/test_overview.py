from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollgym.viewer.queries.overview import pass_at


def test_tasks_with_at_least_k_judged_rollouts_count_equally() -> None:
    tasks: list[int | str | None] = [0, 0, 0, 0, 1, 1, "key", None]
    found = pass_at(tasks, [1, 0, 0, None, 0, 1, 0, 1])
    assert [(each.k, each.tasks) for each in found] == [(1, 3), (2, 2), (3, 1)]
    third, half = 1 / 3, 1 / 2
    expected = [(third + half + 0) / 3, (2 * third + 1) / 2, 1.0]
    assert [each.value for each in found] == pytest.approx(expected)


def test_nothing_judged_has_no_estimate() -> None:
    assert pass_at([0, 1], [None, None]) == ()


@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from((0, 1, None)))))
def test_it_is_the_unbiased_estimate(entries: list[tuple[int, int | None]]) -> None:
    tasks = [task for task, _ in entries]
    for found in pass_at(tasks, [success for _, success in entries]):
        each = []
        for task in set(tasks):
            judged = [good for its, good in entries if its == task and good is not None]
            if len(judged) >= found.k:
                missed = comb(len(judged) - sum(judged), found.k) / comb(len(judged), found.k)
                each.append(1 - missed)
        assert found.tasks == len(each)
        assert found.value == pytest.approx(sum(each) / len(each))
