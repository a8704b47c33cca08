"""For whom work is done, and until when."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollgym.servers.context import (
    LONGEST_ROLLOUT_NAME,
    ROLLOUT_HEADER,
    TIMEOUT_HEADER,
    CallContext,
    after_the_deadline,
    current_deadline,
    current_rollout,
    incoming_context,
    outgoing_headers,
    seconds_left,
    working_for,
)
from tests.cases import for_each


def test_there_is_no_rollout_and_no_deadline_unless_somebody_says_so() -> None:
    async def scenario() -> None:
        assert (current_rollout(), current_deadline()) == ("", None)
        assert seconds_left(60) == 60
        assert outgoing_headers() == {}

    asyncio.run(scenario())


def test_a_deadline_can_only_come_closer() -> None:
    with working_for("1/0", 50):
        with working_for("", 100):
            assert (current_rollout(), current_deadline()) == ("1/0", 50)
        with working_for("2/0", 20):
            assert (current_rollout(), current_deadline()) == ("2/0", 20)
            with working_for("", None):
                assert current_deadline() == 20
        assert (current_rollout(), current_deadline()) == ("1/0", 50)
    assert (current_rollout(), current_deadline()) == ("", None)


def test_what_was_said_ends_with_its_block_also_by_an_error() -> None:
    with pytest.raises(KeyError), working_for("1/0", 50):
        raise KeyError
    assert (current_rollout(), current_deadline()) == ("", None)


def test_some_things_are_done_after_the_deadline() -> None:
    with working_for("1/0", 50):
        with after_the_deadline():
            assert (current_rollout(), current_deadline()) == ("1/0", None)
            with working_for("", 70):
                assert current_deadline() == 70
        assert current_deadline() == 50


@for_each(("left", "at_most", "expected"), [(5, 60, 5), (60, 5, 5), (-5, 60, 0)])
def test_the_time_left_is_bounded_on_both_sides(
    left: float, at_most: float, expected: float
) -> None:
    async def scenario() -> float:
        with working_for("", asyncio.get_running_loop().time() + left):
            return seconds_left(at_most)

    assert asyncio.run(scenario()) == pytest.approx(expected, abs=1)


@given(st.text(st.characters(codec="utf-8"), max_size=LONGEST_ROLLOUT_NAME))
def test_a_name_survives_the_header(rollout: str) -> None:
    async def scenario() -> CallContext:
        with working_for(rollout):
            headers = outgoing_headers()
        assert all(value.isascii() and value.isprintable() for value in headers.values())
        return incoming_context(headers)

    assert asyncio.run(scenario()) == CallContext(rollout, None)


def test_an_ordinary_name_can_be_read_in_the_header() -> None:
    with working_for("1234/5"):
        assert outgoing_headers() == {ROLLOUT_HEADER: "1234/5"}


def test_a_name_of_half_characters_can_be_sent() -> None:
    with working_for("a\ud800b"):
        assert outgoing_headers() == {ROLLOUT_HEADER: "a%3Fb"}


def test_a_name_is_cut_where_it_is_too_long() -> None:
    with working_for("x" * 1000):
        assert current_rollout() == "x" * LONGEST_ROLLOUT_NAME


@for_each("said", ["", "soon", "nan", "inf", "-inf", "1e999", "1,5", "\udcff"])
def test_a_timeout_that_makes_no_sense_is_none(said: str) -> None:
    async def scenario() -> CallContext:
        return incoming_context({TIMEOUT_HEADER: said})

    assert asyncio.run(scenario()) == CallContext("", None)


@for_each(("said", "left"), [("5", 5), ("0.25", 0.25), ("0", 0), ("-3", 0)])
def test_a_timeout_becomes_a_deadline(said: str, left: float) -> None:
    async def scenario() -> float:
        deadline = incoming_context({TIMEOUT_HEADER: said}).deadline
        assert deadline is not None
        return deadline - asyncio.get_running_loop().time()

    assert asyncio.run(scenario()) == pytest.approx(left, abs=1)
