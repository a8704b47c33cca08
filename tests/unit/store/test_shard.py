"""Shards: disjoint, complete, and never splitting a group."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollgym.store import Shard


@given(st.integers(1, 20), st.integers(0, 1000))
def test_exactly_one_shard_takes_each_position(count: int, position: int) -> None:
    takers = [i for i in range(count) if Shard(i, count).holds(position)]
    assert len(takers) == 1


def test_a_shard_is_written_as_a_fraction_from_zero() -> None:
    assert Shard.parse("2/4") == Shard(2, 4)


def test_other_forms_are_refused() -> None:
    cases: list[str] = ["4/4", "1", "-1/4", "a/b", "1/0", "1/2/3", ""]
    for text in cases:
        with pytest.raises(ValueError, match="shard"):
            Shard.parse(text)
