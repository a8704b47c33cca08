import math
import statistics
from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollgym.metrics import Metrics
from rollgym.metrics.aggregate import average_of_k, majority_at_k, pass_at_k
from rollgym.metrics.pass_at_k import PassAtK
from rollgym.records import Completed
from tests.unit.metrics.aggregate.rollouts import (
    task,
    tasks_of_scores,
    tasks_of_some_scores,
)
from tests.unit.metrics.strategies import group

answered = st.tuples(st.sampled_from([0.0, 0.5, 1.0]), st.none() | st.sampled_from("abc"))


def tasks_of(scores: Sequence[Sequence[float | None]]) -> list[list[dict[str, Any]]]:
    return [[{"reward": score} for score in task] for task in scores]


def mean(values: Sequence[Fraction]) -> Fraction:
    return sum(values, Fraction()) / len(values)


@settings(max_examples=50)
@given(tasks_of_scores, st.integers(1, 6))
def test_pass_at_k_is_the_mean_over_all_draws_of_the_best(
    scores: list[list[float]], k: int
) -> None:
    bests = [
        mean([Fraction(max(draw)) for draw in combinations(task, k)])
        for task in scores
        if len(task) >= k
    ]
    expected = float(mean(bests)) if bests else None
    assert pass_at_k(tasks_of(scores), k=k) == expected


@settings(max_examples=50)
@given(st.lists(st.lists(st.booleans(), min_size=1, max_size=5), min_size=1, max_size=4))
def test_pass_at_k_of_successes_is_the_estimate_of_the_runs_metrics(
    successes: list[list[bool]],
) -> None:
    metrics = Metrics()
    for index, outcomes in enumerate(successes):
        for attempt in group(*[Completed(float(success)) for success in outcomes], task=index):
            metrics.add(attempt)
    for k, estimate in metrics.summary().pass_at_k.items():
        assert pass_at_k(tasks_of(successes), k=k) == estimate


@settings(max_examples=50)
@given(tasks_of_scores, tasks_of_scores)
def test_merged_estimates_are_those_of_all_tasks(
    ours: list[list[float]], theirs: list[list[float]]
) -> None:
    whole, left, right = PassAtK(), PassAtK(), PassAtK()
    for scores in ours:
        left.add(scores[::-1])
        whole.add(scores)
    for scores in theirs:
        right.add(scores)
        whole.add(scores)
    right.merge(left)
    assert right.ks() == whole.ks()
    for k in range(1, 7):
        assert right.estimate(k) == whole.estimate(k)


def test_rollouts_without_a_finite_score_are_not_drawn() -> None:
    assert pass_at_k(tasks_of([[1.0, math.nan, None, math.inf], [0.0]]), k=1) == 0.5
    assert pass_at_k(tasks_of([[1.0, math.nan]]), k=2) is None
    assert pass_at_k([], k=1) is None
    assert pass_at_k([task(0.2, 0.9)], k=2, score=lambda row: row["reward"] > 0.5) == 1.0


@settings(max_examples=50)
@given(st.lists(st.lists(answered, min_size=1, max_size=6), max_size=4), st.integers(1, 7))
def test_majority_at_k_is_the_score_of_the_most_frequent_answers(
    votes: list[list[tuple[float, str | None]]], k: int
) -> None:
    tasks = [[{"reward": score, "answer": answer} for score, answer in task] for task in votes]
    worths = [_majority(task[:k]) for task in votes]
    expected = float(mean(worths)) if worths else None
    assert majority_at_k(tasks, answer=lambda row: row["answer"], k=k) == expected


def _majority(votes: list[tuple[float, str | None]]) -> Fraction:
    given_answers = [answer for _, answer in votes if answer is not None]
    winners = statistics.multimode(given_answers)
    return mean(
        [
            mean([Fraction(score) for score, answer in votes if answer == winner])
            for winner in winners
        ]
        or [Fraction()]
    )


def test_a_tie_is_worth_the_mean_of_the_leading_answers() -> None:
    rows = [{"reward": 1.0, "answer": "a"}, {"reward": 0.0, "answer": "b"}]
    for order in (rows, rows[::-1]):
        assert majority_at_k([order], answer=lambda row: row["answer"], k=2) == 0.5


@settings(max_examples=50)
@given(tasks_of_some_scores, st.integers(1, 6))
def test_average_of_k_is_the_mean_of_the_tasks_means(
    scores: list[list[float | None]], k: int
) -> None:
    means = [
        mean([Fraction(score) for score in task[:k] if score is not None])
        for task in scores
        if any(score is not None for score in task[:k])
    ]
    average = average_of_k(tasks_of(scores), k=k)
    assert (None if average is None else average.mean) == (float(mean(means)) if means else None)


def test_an_average_has_a_spread_across_runs_and_one_across_tasks() -> None:
    average = average_of_k([task(1.0, 0.0, 1.0), task(0.0, 0.0, 1.0)], k=3)
    assert average is not None
    runs, tasks = [0.5, 0.0, 1.0], [2 / 3, 1 / 3]
    assert average.mean == 0.5
    assert average.std_dev_across_runs == pytest.approx(statistics.stdev(runs))
    assert average.std_err_across_runs == pytest.approx(statistics.stdev(runs) / math.sqrt(3))
    assert average.std_err_across_tasks == pytest.approx(statistics.stdev(tasks) / math.sqrt(2))
    single = average_of_k([task(1.0)], k=4)
    assert single is not None
    assert single.std_dev_across_runs is None
    assert single.std_err_across_runs is None
    assert single.std_err_across_tasks is None


def test_a_k_of_less_than_one_is_refused() -> None:
    cases: list[int] = [0, -1]
    for k in cases:
        with pytest.raises(ValueError, match="must be at least 1"):
            pass_at_k([], k=k)
        with pytest.raises(ValueError, match="must be at least 1"):
            majority_at_k([], answer=lambda row: None, k=k)
        with pytest.raises(ValueError, match="must be at least 1"):
            average_of_k([], k=k)
