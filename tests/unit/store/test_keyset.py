"""The compact set of rollout keys."""

from hypothesis import given
from hypothesis import strategies as st

from rollgym.store import KeySet

keys = st.tuples(st.integers(0, 20_000) | st.integers(0, 2**62), st.integers(0, 40))


@given(st.lists(keys), st.lists(keys))
def test_it_is_a_set_of_keys(added: list[tuple[int, int]], others: list[tuple[int, int]]) -> None:
    compact, plain = KeySet(), set[tuple[int, int]]()
    for key in added:
        assert compact.add(*key) == (key not in plain)
        plain.add(key)
    assert len(compact) == len(plain)
    for key in [*added, *others]:
        assert compact.has(*key) == (key in plain)
