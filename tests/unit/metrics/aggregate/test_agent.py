import json
import math
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollgym.metrics.aggregate import (
    AgentMetrics,
    AggregateMetrics,
    aggregate,
    default_agent_metrics,
    default_key_metrics,
    tasks_of,
)
from rollgym.metrics.distribution import NAME_LIMIT
from tests.unit.metrics.aggregate.rollouts import rollout, rollouts, task


def metrics_of(rows: list[dict[str, Any]]) -> AgentMetrics:
    metrics = AgentMetrics()
    for row in rows:
        metrics.add(row)
    return metrics


def test_the_answer_has_statistics_of_the_agent_and_of_each_task() -> None:
    rows = [
        rollout(1.0, task=5, solved=True, response={"usage": {"input_tokens": 10}}),
        rollout(0.0, task=5, repeat=1, solved=False, response={"usage": {"input_tokens": 20}}),
        rollout(0.5, task=2, note="no number", response={"usage": None}),
    ]
    result = metrics_of(rows).result()
    assert result.agent_metrics["mean/reward"] == 0.5
    assert result.agent_metrics["std/reward"] == 0.5
    assert result.agent_metrics["mean/solved"] == 0.5
    assert result.agent_metrics["mean/input_tokens"] == 15.0
    assert result.agent_metrics["pass@2/accuracy"] == 100.0
    assert result.agent_metrics["pass@1/accuracy"] == 25.0
    assert result.key_metrics == {
        "mean/reward": 0.5,
        "mean/input_tokens": 15.0,
        "pass@2/accuracy": 100.0,
    }
    first, second = result.group_level_metrics
    assert first == {
        "_ng_task_index": 2,
        "num_rollouts": 1,
        "mean/reward": 0.5,
        "max/reward": 0.5,
        "min/reward": 0.5,
        "median/reward": 0.5,
        "std/reward": 0.0,
    }
    assert (second["_ng_task_index"], second["num_rollouts"]) == (5, 2)
    assert second["std/input_tokens"] == math.sqrt(50)


def test_only_fields_with_numbers_count_and_only_rollouts_that_have_them() -> None:
    rows = [rollout(1.0, steps=4), rollout(1.0, task=1), rollout(0.0, task=2, steps=None)]
    result = metrics_of([*rows, rollout(1.0, task=3, _ng_failure_terminal=True)]).result()
    assert result.agent_metrics["mean/steps"] == 4.0
    assert not [key for key in result.agent_metrics if "_ng_" in key or "pass@" in key]
    assert AgentMetrics().result() == aggregate([]) == AggregateMetrics()


def test_the_result_is_the_contracts_json() -> None:
    encoded = json.loads(msgspec.json.encode(aggregate(task(1.0, math.nan))))
    assert list(encoded) == ["agent_metrics", "key_metrics", "group_level_metrics"]
    assert encoded["agent_metrics"]["num_non_finite/reward"] == 1
    assert encoded["group_level_metrics"][0]["num_non_finite/reward"] == 1
    assert encoded["group_level_metrics"][0]["mean/reward"] == 1.0


@settings(max_examples=40)
@given(rollouts())
def test_the_order_of_the_rollouts_does_not_show(rows: list[dict[str, Any]]) -> None:
    assert _bytes(metrics_of(rows[::-1]).result()) == _bytes(metrics_of(rows).result())
    assert _bytes(metrics_of(rows).result()) == _bytes(aggregate(rows))


@settings(max_examples=40)
@given(rollouts(), st.sets(st.integers(0, 3)))
def test_closing_a_task_hands_over_its_entry_and_changes_no_other_number(
    rows: list[dict[str, Any]], closed: set[int]
) -> None:
    whole = metrics_of(rows).result()
    metrics = metrics_of(rows)
    closings = [metrics.close(task) for task in sorted(closed)]
    entries = [json.loads(entry) for entry in closings if entry is not None]
    rest = metrics.result()
    assert rest.agent_metrics == whole.agent_metrics
    assert rest.key_metrics == whole.key_metrics
    both = sorted(entries + rest.group_level_metrics, key=lambda entry: entry["_ng_task_index"])
    assert both == whole.group_level_metrics


def test_a_closed_task_is_not_held() -> None:
    metrics = AgentMetrics()
    for index in range(100):
        for row in task(1.0, 0.0, index=index):
            metrics.add(row)
        assert metrics.close(index) is not None
    assert not metrics._open
    assert metrics.close(5) is None
    assert metrics.result().agent_metrics["pass@1/accuracy"] == 50.0


def test_a_task_shows_only_fields_that_the_agent_shows() -> None:
    rows = [{**rollout(1.0, task=n), f"f{n:04}": 1.0} for n in range(NAME_LIMIT + 10)]
    result = metrics_of(rows[::-1]).result()
    assert "mean/f0003" in result.group_level_metrics[3]
    assert set(result.group_level_metrics[-1]) == {"_ng_task_index", "num_rollouts"}


def test_hooks_add_metrics_and_choose_the_key_ones() -> None:
    def compute(tasks: list[list[dict[str, Any]]]) -> dict[str, Any]:
        return {"tasks": len(tasks), "mean/reward": "replaced", "detail": {"nested": [1]}}

    def choose(agent_metrics: dict[str, Any]) -> dict[str, Any]:
        return {"tasks": agent_metrics.pop("tasks")}

    result = aggregate(task(1.0, 0.0) + task(1.0, index=4), compute, choose)
    assert result.key_metrics == {"tasks": 2}
    assert result.agent_metrics["tasks"] == 2
    assert result.agent_metrics["mean/reward"] == "replaced"
    assert result.agent_metrics["max/reward"] == 1.0
    assert not [key for key in result.agent_metrics if "pass@" in key]
    assert len(result.group_level_metrics) == 2
    usual = aggregate(task(1.0, 0.0), get_key_metrics=lambda agent_metrics: None)
    assert usual == aggregate(task(1.0, 0.0))


def test_an_index_that_is_no_integer_is_refused_and_nothing_is_counted() -> None:
    metrics = AgentMetrics()
    with pytest.raises(ValueError, match="_ng_task_index is 'x'"):
        metrics.add({"_ng_task_index": "x", "reward": 1.0})
    assert metrics.result() == AggregateMetrics()


def test_default_metrics_take_the_powers_of_two_and_the_largest_group() -> None:
    metrics = default_agent_metrics([task(*[1.0] * 5, *[0.0] * 6)])
    assert list(metrics) == [f"pass@{k}/accuracy" for k in (1, 2, 4, 8, 11)]
    assert metrics["pass@1/accuracy"] == pytest.approx(100 * 5 / 11)


def test_default_key_metrics_choose_what_there_is() -> None:
    metrics = {
        "mean/reward": 0.5,
        "mean/steps": 3.0,
        "mean/total_tokens": 9.0,
        "pass@1/accuracy": 50.0,
        "pass@2/accuracy": 75.0,
        "pass@2/no_answer": 10.0,
        "majority@2/accuracy": 60.0,
        "pass@1[avg-of-2]/accuracy": 50.0,
        "pass@1[avg-of-2]/accuracy/std_err_across_runs": 1.0,
    }
    assert default_key_metrics(metrics) == {
        "mean/reward": 0.5,
        "mean/total_tokens": 9.0,
        "pass@1[avg-of-2]/accuracy": 50.0,
        "pass@2/accuracy": 75.0,
        "majority@2/accuracy": 60.0,
    }


def test_tasks_of_gives_the_hook_dictionaries_of_its_own() -> None:
    row = rollout(1.0)
    tasks_of([row])[0][0]["reward"] = 0.0
    assert row["reward"] == 1.0


def _bytes(result: AggregateMetrics) -> bytes:
    return msgspec.json.encode(result)
