from math import inf, isnan, nan
from typing import Any

import pytest

from rollgym.metrics.aggregate import tasks_of
from rollgym.metrics.aggregate.rollouts import numbers_of, succeeded, task_of
from tests.unit.metrics.aggregate.rollouts import rollout


def test_numbers_are_the_numeric_fields_and_those_of_the_usage() -> None:
    usage = {"input_tokens": 7, "output_tokens_details": {"reasoning_tokens": 3}}
    row = rollout(0.5, task=3, steps=4, solved=True, response={"usage": usage, "id": "r"})
    assert numbers_of(row) == {"reward": 0.5, "steps": 4.0, "solved": 1.0, "input_tokens": 7.0}


def test_what_is_no_number_is_passed_over() -> None:
    cases: list[object] = ["7", None, [1], {"a": 1}, "nan"]
    for value in cases:
        assert numbers_of({"reward": value}) == {}


def test_a_response_without_usage_has_no_numbers() -> None:
    cases: list[object] = [None, "text", {}, {"usage": None}, {"usage": 3}]
    for response in cases:
        assert numbers_of({"response": response}) == {}


def test_the_usage_is_meant_where_a_field_of_the_rollout_has_its_name() -> None:
    row = {"input_tokens": 1, "response": {"usage": {"input_tokens": 2}}}
    assert numbers_of(row) == {"input_tokens": 2.0}


def test_an_integer_beyond_every_float_is_infinite() -> None:
    assert numbers_of({"a": 10**400, "b": -(10**400)}) == {"a": inf, "b": -inf}
    assert isnan(numbers_of({"a": nan})["a"])


def test_success_is_the_rollouts_word_or_else_its_rewards() -> None:
    cases: list[tuple[dict[str, Any], bool | None]] = [
        ({"success": True, "reward": 0.0}, True),
        ({"success": False, "reward": 1.0}, False),
        ({"reward": 1}, True),
        ({"reward": 0.99}, False),
        ({"reward": nan}, None),
        ({"reward": inf}, None),
        ({"reward": "1"}, None),
        ({"success": None, "reward": 2.0}, True),
        ({}, None),
    ]
    for row, expected in cases:
        assert succeeded(row) is expected


def test_tasks_and_their_repeats_come_in_order() -> None:
    rows = [rollout(float(n), task=t, repeat=n) for n, t in [(1, 7), (0, 7), (1, 2), (0, 2)]]
    assert tasks_of(rows) == [[rows[3], rows[2]], [rows[1], rows[0]]]


def test_a_rollout_that_names_no_task_is_of_task_0() -> None:
    assert task_of({"reward": 1.0}) == 0
    assert tasks_of([{"reward": 1.0}, rollout(0.0)]) == [[{"reward": 1.0}, rollout(0.0)]]


def test_an_index_that_is_no_integer_is_refused_by_its_name() -> None:
    cases: list[object] = ["3", None, 1.0, True]
    for index in cases:
        with pytest.raises(ValueError, match="_ng_task_index is .*: it must be an integer"):
            tasks_of([{"_ng_task_index": index}])
        with pytest.raises(ValueError, match="_ng_rollout_index is .*: it must be an integer"):
            tasks_of([{"_ng_rollout_index": index}])
