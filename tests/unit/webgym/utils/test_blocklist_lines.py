"""What the lines of a blocklist amount to."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from webgym.utils.blocklist import (
    BlocklistLine,
    BlocklistState,
    entry,
    plain_domain,
    read_line,
    written,
)

HOUR = 3600.0
NOW = 1_800_000_000.0
LINES = st.builds(
    BlocklistLine,
    domain=st.sampled_from(["a.example", "www.A.example", "b.example"]),
    seen=st.integers(0, 5),
    blocked=st.integers(0, 5),
    at=st.floats(NOW - 13 * HOUR, NOW),
) | st.builds(
    entry,
    st.sampled_from(["a.example", "b.example"]),
    st.floats(NOW - HOUR, NOW + HOUR),
    st.just("by hand"),
)


def standing(lines: list[BlocklistLine], now: float = NOW) -> BlocklistState:
    amount = BlocklistState(12, now)
    for line in lines:
        amount.add(line)
    return amount


def observed(seen: int, blocked: int, at: float = NOW) -> BlocklistLine:
    return BlocklistLine(domain="a.example", seen=seen, blocked=blocked, at=at)


def test_an_entry_may_be_written_by_hand() -> None:
    cases: list[bytes] = [
        b'{"domain": "a.example"}',
        b'{"domain": "a.example", "expires": null, "reason": "asks for a phone number"}',
        b'{"domain": "WWW.a.example", "expires": 1800003600}',
        b'{"domain": "a.example", "expires": "2027-01-15T09:00:00Z"}',
        b'{"domain": "a.example", "expires": "2027-01-15T09:00:00"}',
        b'{"domain": "a.example", "expires": "2027-01-15T10:00:00+01:00"}',
    ]
    for text in cases:
        assert standing([read_line(text)]).blocked == {"a.example"}


def test_what_has_expired_does_not_count() -> None:
    cases: list[bytes] = [
        b'{"domain": "a.example", "expires": 1799999999}',
        b'{"domain":"a.example","seen":9,"at":0}',
    ]
    for text in cases:
        assert standing([read_line(text)]).blocked == frozenset()
        assert standing([read_line(text)]).tally("a.example") == (0, 0)


def test_any_other_line_is_refused() -> None:
    cases: list[bytes] = [
        b"",
        b"{}",
        b"[]",
        b'{"domain": ""}',
        b'{"domian": "a.example"}',
        b"\xff",
        b'{"dom',
    ]
    for text in cases:
        with pytest.raises((msgspec.DecodeError, UnicodeDecodeError)):
            read_line(text)


def test_observations_add_up_since_the_last_entry() -> None:
    lines = [observed(3, 2), entry("a.example", NOW - 1, "expired"), observed(1, 1), observed(1, 0)]
    assert standing(lines).tally("a.example") == (2, 1)


@given(st.lists(LINES, max_size=12))
def test_fewer_lines_amount_to_the_same(lines: list[BlocklistLine]) -> None:
    before = standing(lines)
    kept = list(before.lines())
    after = standing(kept)
    assert after.blocked == before.blocked
    for domain in ("a.example", "b.example"):
        assert after.tally(domain) == before.tally(domain)
    assert list(after.lines()) == kept


@given(LINES)
def test_a_line_is_read_as_it_was_written(line: BlocklistLine) -> None:
    assert read_line(written(line)) == line


def test_the_lines_of_one_domain_stay_few() -> None:
    lines = [observed(1, 0, NOW - number) for number in range(10_000)]
    assert len(list(standing(lines).lines())) <= 65


def test_hosts_are_compared_as_tasks_name_them() -> None:
    assert plain_domain(" WWW.Shop.Example ") == "shop.example"
