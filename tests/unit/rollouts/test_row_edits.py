"""Overrides reach into a row's objects and leave every other byte alone."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollgym.records import Row
from rollgym.rollouts.row_edits import merged, without
from tests.unit.rollouts.strategies import names, objects


def edited(text: str, overrides: dict[str, Any]) -> str:
    return merged(Row.parse(text.encode()), overrides).raw.decode()


@pytest.mark.parametrize(
    ("text", "overrides", "expected"),
    [
        ('{"a": 1.0}', {}, '{"a": 1.0}'),
        ('{"a": 1.0}', {"b": 2}, '{"a": 1.0,"b":2}'),
        ('{"a": 1.0, "b":  [ 1 ]}', {"a": 2}, '{"a":2,"b":[ 1 ]}'),
        (
            '{"t":{"x":1.50,"y":{"z": 1}}}',
            {"t": {"y": {"w": 2}}},
            '{"t":{"x":1.50,"y":{"z": 1,"w":2}}}',
        ),
        ('{"t":{"x":1}}', {"t": {}}, '{"t":{"x":1}}'),
        ('{"t":{"x":1}}', {"t": None}, '{"t":null}'),
        ('{"t":[1]}', {"t": {"x": 1}}, '{"t":{"x":1}}'),
        ('{"t":null}', {"t": {"x": 1}}, '{"t":{"x":1}}'),
        ("{}", {"t": {"x": {"y": [1, "é"]}}}, '{"t":{"x":{"y":[1,"é"]}}}'),
    ],
)
def test_overrides_are_merged_deeply(text: str, overrides: dict[str, Any], expected: str) -> None:
    assert edited(text, overrides) == expected


NESTED: st.SearchStrategy[Any] = st.recursive(
    st.integers() | st.text("xy", max_size=3),
    lambda inner: st.dictionaries(names, inner, max_size=3),
    max_leaves=5,
)


@given(objects(names), st.dictionaries(names, NESTED, max_size=3))
def test_everything_that_is_not_named_keeps_its_bytes(text: str, overrides: dict[str, Any]) -> None:
    row = Row.parse(text.encode())
    result = merged(row, overrides)
    assert result.fields.keys() == row.fields.keys() | overrides.keys()
    for name, raw in row.fields.items():
        if name not in overrides:
            assert result.fields[name] == raw
    for name, value in overrides.items():
        if not isinstance(value, dict):
            assert msgspec.json.decode(result.fields[name]) == value


@given(objects(names), st.sets(names, max_size=3))
def test_what_is_taken_out_is_gone_and_the_rest_is_as_it_was(text: str, gone: set[str]) -> None:
    row = Row.parse(text.encode())
    result = without(row, gone)
    kept = {name: raw for name, raw in row.fields.items() if name not in gone}
    assert result.fields == kept
    if kept.keys() == row.fields.keys():
        assert result is row
