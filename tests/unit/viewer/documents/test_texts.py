import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollgym.viewer.documents.texts import child, names_in, value_at

JSON = {"a": [1, {"b/c": {"m~n": "found", "": "empty"}}], "01": 7}
RAW = msgspec.Raw(msgspec.json.encode(JSON))


def test_a_pointer_finds_its_value() -> None:
    for pointer, value in [
        ("", JSON),
        ("/a/0", 1),
        ("/a/1/b~1c/m~0n", "found"),
        ("/a/1/b~1c/", "empty"),
        ("/01", 7),
    ]:
        assert msgspec.json.decode(value_at(RAW, names_in(pointer))) == value


def test_a_pointer_that_leads_nowhere_is_a_key_error() -> None:
    for pointer in [
        "a",
        "/b",
        "/a/2",
        "/a/-1",
        "/a/00",
        "/a/0/x",
        "/a/1e0",
        "/a/²",
        "/a/" + "9" * 5000,
    ]:
        with pytest.raises(KeyError):
            value_at(RAW, names_in(pointer))


@given(st.lists(st.one_of(st.text(), st.integers(0, 99))))
def test_names_survive_being_written_as_a_pointer(names: list[str | int]) -> None:
    pointer = ""
    for name in names:
        pointer = child(pointer, name)
    assert names_in(pointer) == [str(name) for name in names]
