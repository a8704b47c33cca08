import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollgym.metrics.aggregate import (
    average_of_k,
    highest_k,
    majority_at_k,
    pass_at_k,
    pass_majority_metrics,
)
from tests.unit.metrics.aggregate.rollouts import task

rows = st.fixed_dictionaries(
    {"reward": st.sampled_from([0.0, 0.25, 1.0]), "answer": st.none() | st.sampled_from("ab")}
)


def score(row: Any) -> dict[str, float]:
    return {"score": row["reward"]}


def answer(row: Any) -> str | None:
    found: str | None = row["answer"]
    return found


@given(st.lists(st.lists(rows, min_size=1, max_size=5), min_size=1, max_size=3))
def test_every_k_is_what_the_single_functions_say_in_percent(
    tasks: list[list[dict[str, Any]]],
) -> None:
    metrics = pass_majority_metrics(tasks, score, answer)
    for k in range(1, max(map(len, tasks)) + 1):
        average = average_of_k(tasks, k=k)
        assert average is not None
        expected = {
            f"pass@{k}/score": pass_at_k(tasks, k=k),
            f"majority@{k}/score": majority_at_k(tasks, answer=answer, k=k),
            f"pass@1[avg-of-{k}]/score": average.mean,
            f"pass@1[avg-of-{k}]/score/std_dev_across_runs": average.std_dev_across_runs,
            f"pass@1[avg-of-{k}]/score/std_err_across_runs": average.std_err_across_runs,
            f"pass@1[avg-of-{k}]/score/std_err_across_tasks": average.std_err_across_tasks,
        }
        for key, value in expected.items():
            if value is None:
                assert key not in metrics
            else:
                assert metrics[key] == pytest.approx(100 * value)


def test_accuracy_is_success_by_default() -> None:
    metrics = pass_majority_metrics([task(1.0, 0.5), task(0.0, 0.0)])
    assert metrics["pass@1/accuracy"] == 25.0
    assert metrics["pass@2/accuracy"] == 50.0
    assert metrics["pass@1[avg-of-2]/accuracy"] == 25.0
    assert not [key for key in metrics if key.startswith("majority") or "no_answer" in key]


def test_answers_bring_the_share_of_rollouts_without_one() -> None:
    answers: list[list[str | None]] = [["a", None], [None, None]]
    tasks = [[{"reward": 1.0, "answer": one} for one in given] for given in answers]
    metrics = pass_majority_metrics(tasks, score, answer)
    assert metrics["pass@1[avg-of-2]/no_answer"] == 75.0
    assert metrics["majority@2/no_answer"] == 50.0
    assert metrics["majority@2/score"] == 50.0


def test_scores_that_are_not_finite_are_counted_and_poison_nothing() -> None:
    metrics = pass_majority_metrics([task(1.0, math.nan), task(math.inf, 0.0)], score)
    assert metrics["num_non_finite/score"] == 2
    assert metrics["pass@1/score"] == 50.0
    assert all(math.isfinite(value) for value in metrics.values())


def test_huge_scores_stay_finite_in_percent() -> None:
    metrics = pass_majority_metrics([task(1.7e308, -1.7e308)], score)
    assert all(math.isfinite(value) for value in metrics.values())


def test_several_scores_and_scores_of_some_rollouts_only() -> None:
    def scores(row: Any) -> dict[str, float]:
        return {"all": True} if row["reward"] else {"all": False, "some": True}

    metrics = pass_majority_metrics([task(1.0, 0.0)], scores)
    assert metrics["pass@2/all"] == 100.0
    assert metrics["pass@1/some"] == 100.0
    assert "pass@2/some" not in metrics


def test_no_tasks_have_no_metrics() -> None:
    assert pass_majority_metrics([]) == {}
    assert pass_majority_metrics([[]], score, answer) == {}


METRICS: dict[str, Any] = {
    "pass@2/accuracy": 1,
    "pass@10/accuracy": 2,
    "pass@10/no_answer": 3,
    "pass@1[avg-of-9]/accuracy": 4,
    "pass@1[avg-of-10]/accuracy": 5,
    "pass@1[avg-of-10]/accuracy/std_dev_across_runs": 6,
    "pass@1[avg-of-10]/a/b": 7,
    "mean/reward": 8,
    "easy/pass@4/accuracy": 9,
}


def test_the_highest_k_is_chosen_by_number() -> None:
    cases: list[tuple[Callable[[], dict[str, int]], list[int]]] = [
        (lambda: highest_k(METRICS, "pass@{k}"), [2, 3]),
        (lambda: highest_k(METRICS, "pass@{k}", exclude=["no_answer"]), [2]),
        (lambda: highest_k(METRICS, "pass@{k}", ["accuracy"]), [2]),
        (lambda: highest_k(METRICS, "pass@1[avg-of-{k}]"), [5, 7]),
        (lambda: highest_k(METRICS, "easy/pass@{k}"), [9]),
        (lambda: highest_k(METRICS, "majority@{k}"), []),
    ]
    for select, chosen in cases:
        assert list(select().values()) == chosen


def test_a_pattern_needs_one_place_for_k() -> None:
    cases: list[str] = ["pass@", "{k}/{k}"]
    for pattern in cases:
        with pytest.raises(ValueError, match="needs exactly one {k}"):
            highest_k({}, pattern)
