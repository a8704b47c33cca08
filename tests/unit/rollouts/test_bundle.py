"""Stored rollouts of a task, bundled into one."""

import msgspec
import pytest

from rollgym.records import Row, RowError, Task
from rollgym.rollouts.bundle import StoredRollout, bundled, shown, stored_rollout
from rollgym.rollouts.fields import STORED_ROLLOUTS

BASE = Row.of({"responses_create_params": {"input": "hi"}, "x": 1})


def stored(repeat: int, **params: object) -> StoredRollout:
    row = Row.of(
        {
            "responses_create_params": {"input": "hi", **params},
            "response": {"id": repeat},
            "_ng_rollout_index": repeat,
        }
    )
    return StoredRollout.of(row)


def test_a_task_that_is_no_bundle_is_shown_as_it_is() -> None:
    assert shown(Task(0, BASE, 3), 2) == (BASE, 2)


def test_each_repeat_of_a_bundle_is_shown_as_the_rollout_it_was() -> None:
    task = Task(0, bundled(BASE, [stored(4), stored(7)]), 2)
    assert shown(task, 1) == (BASE, 7)
    row, rollout = stored_rollout(task, 0)
    assert row == BASE
    assert msgspec.json.decode(rollout.response) == {"id": 4}


def test_each_keeps_the_seed_that_it_was_sampled_with() -> None:
    task = Task(0, bundled(BASE, [stored(0, seed=5), stored(1, seed=6)]), 2)
    seeds = [msgspec.json.decode(shown(task, repeat)[0].raw) for repeat in range(2)]
    assert [row["responses_create_params"]["seed"] for row in seeds] == [5, 6]


@pytest.mark.parametrize("odd", [None, True, "x", 1.5])
def test_a_seed_that_is_no_number_is_left_as_the_row_has_it(odd: object) -> None:
    assert stored(0, seed=odd).seed is None


def test_a_bundle_of_a_bundle_holds_only_its_own() -> None:
    task = Task(0, bundled(bundled(BASE, [stored(1)]), [stored(2)]), 1)
    assert shown(task, 0) == (BASE, 2)
    assert STORED_ROLLOUTS not in shown(task, 0)[0].fields


def test_a_number_that_is_none_is_refused() -> None:
    row = BASE.with_fields({"response": {}, "_ng_rollout_index": "first"})
    with pytest.raises(RowError, match="_ng_rollout_index"):
        StoredRollout.of(row)
