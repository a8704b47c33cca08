"""Rows keep their bytes."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollgym.records import Row, RowError

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
json_objects = st.dictionaries(st.text(), json_values, max_size=5)


@given(json_objects, st.sampled_from([None, 2]))
def test_a_row_leaves_as_the_bytes_it_came_as(fields: dict[str, Any], indent: int | None) -> None:
    line = json.dumps(fields, indent=indent, ensure_ascii=False).encode("utf-8", "replace")
    assert Row.parse(line).raw == line


@given(json_objects, st.text(), json_values)
def test_setting_a_field_changes_that_field_only(
    fields: dict[str, Any], name: str, value: object
) -> None:
    row = Row.parse(json.dumps(fields).encode())
    changed = Row.parse(row.with_fields({name: value}).raw)
    assert json.loads(bytes(changed.fields[name])) == value
    for other in fields.keys() - {name}:
        assert bytes(changed.fields[other]) == bytes(row.fields[other])


def test_numbers_and_order_of_untouched_fields_stay_as_written() -> None:
    row = Row.parse(b'{"z": 1.0, "big": 123456789012345678901234567890, "a": 1e400}\n')
    assert row.with_fields({"reward": 1}).raw == (
        b'{"z": 1.0, "big": 123456789012345678901234567890, "a": 1e400,"reward":1}'
    )


def test_a_field_is_decoded_to_the_type_asked_for() -> None:
    row = Row.parse(b'{"n": 3, "names": ["a"]}')
    assert row.get("n", int) == 3
    assert row.get("names", list[str]) == ["a"]
    assert row.get("absent", int) is None
    assert row.get("absent", int, 7) == 7
    with pytest.raises(RowError, match="field 'names': Expected `int`, got `array`"):
        row.get("names", int)


def test_what_is_no_row_is_refused_with_the_reason() -> None:
    cases: list[tuple[bytes, str]] = [
        (b"", "Input data was truncated"),
        (b"[1]", "not a JSON object"),
        (b'{"a": NaN}', "invalid character"),
        (b'{"a": 1} trailing', "trailing characters"),
        (b'{"a": "\xff"}', "not UTF-8 text at byte 7"),
    ]
    for line, reason in cases:
        with pytest.raises(RowError, match=reason):
            Row.parse(line)
