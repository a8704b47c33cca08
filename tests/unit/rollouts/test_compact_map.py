"""A map in two arrays behaves as a dict of lists does."""

from collections import defaultdict

from hypothesis import given, settings
from hypothesis import strategies as st

from rollgym.rollouts.input_file import CompactMap, _scrambled

KEYS = st.one_of(
    st.integers(0, 8),
    st.integers(0, 2**64 - 1),
    st.sampled_from([0, 1, 2**63, 2**64 - 1]),
)


@given(st.lists(KEYS, max_size=200))
def test_it_holds_what_a_dict_of_lists_holds(keys: list[int]) -> None:
    compact = CompactMap()
    plain: defaultdict[int, list[int]] = defaultdict(list)
    for value, key in enumerate(keys):
        assert compact.has(key) == bool(plain[key])
        compact.add(key, value)
        plain[key].append(value)
        assert list(compact.candidates(key)) == plain[key]
    assert len(compact) == len(keys)
    assert {key: list(compact.candidates(key)) for key in plain} == plain


@settings(max_examples=10)
@given(st.integers(1, 4), st.integers(0, 2**63))
def test_it_grows_without_losing_anything_or_its_order(times: int, first: int) -> None:
    compact, distinct = CompactMap(), 700
    for value in range(distinct * times):
        compact.add(first + value % distinct, value)
    for key in range(distinct):
        values = range(key, distinct * times, distinct)
        assert list(compact.candidates(first + key)) == list(values)
    assert not compact.has(first + distinct)


def test_growing_keeps_the_order_also_where_a_run_of_places_goes_around_the_end() -> None:
    last = next(key for key in range(1 << 20) if _scrambled(key) % 1024 == 1023)
    compact = CompactMap()
    for value in range(5):
        compact.add(last, value)
    for key in range(1 << 30, (1 << 30) + 1024):
        compact.add(key, 0)
    assert list(compact.candidates(last)) == [0, 1, 2, 3, 4]


def test_any_number_of_keys_that_are_close_together_is_found_quickly() -> None:
    compact = CompactMap()
    for key in range(0, 1 << 20, 64):
        compact.add(key, key)
    assert all(list(compact.candidates(key)) == [key] for key in range(0, 1 << 20, 64))
