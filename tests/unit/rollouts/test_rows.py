"""Rows: overrides reach into objects, other bytes stay, and stored rollouts keep their numbers."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollgym.records import Row, RowError, Task
from rollgym.rollouts.rows import (
    STORED_ROLLOUTS,
    StoredRollout,
    merge_fields,
    rollout_row,
    without_fields,
)
from tests.unit.rollouts.strategies import names, objects

BASE = Row.of({"responses_create_params": {"input": "hi"}, "x": 1})


def edited(text: str, overrides: dict[str, Any]) -> str:
    return merge_fields(Row.parse(text.encode()), overrides).raw.decode()


def test_overrides_are_merged_deeply() -> None:
    cases: list[tuple[str, dict[str, Any], str]] = [
        ('{"a": 1.0}', {}, '{"a": 1.0}'),
        ('{"a": 1.0, "b":  [ 1 ]}', {"a": 2}, '{"a":2,"b":[ 1 ]}'),
        (
            '{"t":{"x":1.50,"y":{"z": 1}}}',
            {"t": {"y": {"w": 2}}},
            '{"t":{"x":1.50,"y":{"z": 1,"w":2}}}',
        ),
        ('{"t":{"x":1}}', {"t": {}}, '{"t":{"x":1}}'),
        ('{"t":{"x":1}}', {"t": None}, '{"t":null}'),
        ('{"t":[1]}', {"t": {"x": 1}}, '{"t":{"x":1}}'),
        ("{}", {"t": {"x": {"y": [1, "é"]}}}, '{"t":{"x":{"y":[1,"é"]}}}'),
    ]
    for text, overrides, expected in cases:
        assert edited(text, overrides) == expected


NESTED: st.SearchStrategy[Any] = st.recursive(
    st.integers() | st.text("xy", max_size=3),
    lambda inner: st.dictionaries(names, inner, max_size=3),
    max_leaves=5,
)


@given(objects(names), st.dictionaries(names, NESTED, max_size=3))
def test_fields_that_are_not_named_keep_their_bytes(text: str, overrides: dict[str, Any]) -> None:
    row = Row.parse(text.encode())
    result = merge_fields(row, overrides)
    assert result.fields.keys() == row.fields.keys() | overrides.keys()
    for name, raw in row.fields.items():
        if name not in overrides:
            assert result.fields[name] == raw
    for name, value in overrides.items():
        if not isinstance(value, dict):
            assert msgspec.json.decode(result.fields[name]) == value


@given(objects(names), st.sets(names, max_size=3))
def test_removing_fields_keeps_the_others_as_they_were(text: str, gone: set[str]) -> None:
    row = Row.parse(text.encode())
    result = without_fields(row, gone)
    kept = {name: raw for name, raw in row.fields.items() if name not in gone}
    assert result.fields == kept
    if kept.keys() == row.fields.keys():
        assert result is row


def stored(repeat: object, **params: object) -> StoredRollout:
    params = {"input": "hi", **params}
    row = Row.of({"responses_create_params": params, "_ng_rollout_index": repeat})
    return StoredRollout.of(row)


def test_a_repeat_of_stored_rollouts_has_the_number_and_seed_that_it_had() -> None:
    assert rollout_row(Task(0, BASE, 3), 2) == (BASE, 2)
    row = BASE.with_fields({STORED_ROLLOUTS: [stored(4), stored(7, seed=5)]})
    assert rollout_row(Task(0, row, 2), 0) == (BASE, 4)
    seeded, number = rollout_row(Task(0, row, 2), 1)
    assert number == 7
    assert msgspec.json.decode(seeded.raw)["responses_create_params"] == {"input": "hi", "seed": 5}
    for odd in (None, True, "x", 1.5):
        assert stored(0, seed=odd).seed is None
    with pytest.raises(RowError, match="_ng_rollout_index"):
        stored("first")


def test_rows_of_earlier_versions_hold_the_responses_as_well() -> None:
    old = [{"repeat": 3, "response": {"id": 1}, "seed": None}]
    assert rollout_row(Task(0, BASE.with_fields({STORED_ROLLOUTS: old})), 0) == (BASE, 3)
