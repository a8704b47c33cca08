"""Leases under a clock that the test moves."""

import asyncio

import pytest

from rollgym.servers.exchange import RefusedRequestError
from webgym.browser.contract.errors import SessionLostError
from webgym.browser.leases import MOST_CALLS, Leases, new_instance_id

HOUR = 3600.0


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def leases(clock: Clock) -> Leases[str]:
    return Leases(idle_seconds=900, first_use_seconds=60, clock=clock, most=3)


def test_identifiers_are_long_and_never_the_same() -> None:
    made = {new_instance_id() for _ in range(1000)}
    assert len(made) == 1000
    assert min(map(len, made)) == 32


def test_a_lease_leads_to_its_session(leases: Leases[str]) -> None:
    async def scenario() -> None:
        leases.begin("a", "session a", HOUR)
        leases.begin("b", "session b", HOUR)
        with leases.using("a") as one, leases.using("b") as other:
            assert (one, other) == ("session a", "session b")
        assert list(leases) == ["a", "b"]

    asyncio.run(scenario())


def test_an_unknown_identifier_is_a_lost_session(leases: Leases[str]) -> None:
    with pytest.raises(SessionLostError, match="unknown session on this node: 'zzz'"):
        leases.seconds_left("zzz")
    assert leases.end("zzz", "for fun") is None
    assert leases.reason("zzz") is None


def test_a_session_that_is_never_used_ends_soon(leases: Leases[str], clock: Clock) -> None:
    leases.begin("a", "session", HOUR)
    clock.now += 59
    assert leases.due() == []
    clock.now += 1
    assert leases.due() == [("a", "it was not used within 60 s of its start")]


def test_a_lifetime_ends(leases: Leases[str], clock: Clock) -> None:
    leases.begin("a", "session", 90)
    leases.seconds_left("a")
    clock.now += 89
    assert leases.due() == []
    assert leases.seconds_left("a") == 1
    clock.now += 1
    assert leases.due() == [("a", "it expired after 1.5 min")]
    assert leases.end(*leases.due()[0]) == "session"
    with pytest.raises(SessionLostError, match="session a is lost: it expired after 1.5 min"):
        leases.seconds_left("a")


def test_a_lifetime_ends_also_while_it_is_used(leases: Leases[str], clock: Clock) -> None:
    async def scenario() -> None:
        leases.begin("a", "session", 10)
        with leases.using("a"):
            clock.now += 10
            assert [each for each, _ in leases.due()] == ["a"]

    asyncio.run(scenario())


def test_an_unused_session_ends(leases: Leases[str], clock: Clock) -> None:
    leases.begin("a", "session", HOUR)
    leases.seconds_left("a")
    clock.now += 899
    assert leases.due() == []
    clock.now += 1
    assert leases.due() == [("a", "it was unused for 900 s")]


def test_a_request_in_flight_is_not_idle(leases: Leases[str], clock: Clock) -> None:
    async def scenario() -> None:
        leases.begin("a", "session", HOUR)
        with leases.using("a"):
            clock.now += 1000
            assert leases.due() == []
        clock.now += 899
        assert leases.due() == []
        clock.now += 1
        assert len(leases.due()) == 1

    asyncio.run(scenario())


def test_the_end_of_a_lease_ends_its_calls_at_once(leases: Leases[str]) -> None:
    async def call() -> None:
        with leases.using("a"):
            await asyncio.sleep(1000)

    async def scenario() -> None:
        leases.begin("a", "session", HOUR)
        calls = [asyncio.ensure_future(call()) for _ in range(3)]
        await asyncio.sleep(0)
        leases.end("a", "its browser died")
        async with asyncio.timeout(60):
            errors = await asyncio.gather(*calls, return_exceptions=True)
        assert [str(error) for error in errors] == ["session a is lost: its browser died"] * 3
        assert all(isinstance(error, SessionLostError) for error in errors)

    asyncio.run(scenario())


def test_a_cancelled_call_stays_cancelled_when_its_lease_ends_too(leases: Leases[str]) -> None:
    async def call() -> None:
        with leases.using("a"):
            await asyncio.sleep(1000)

    async def scenario() -> None:
        leases.begin("a", "session", HOUR)
        calling = asyncio.ensure_future(call())
        await asyncio.sleep(0)
        calling.cancel()
        leases.end("a", "its browser died")
        with pytest.raises(asyncio.CancelledError):
            await calling

    asyncio.run(scenario())


def test_no_lease_begins_twice_or_after_its_end(leases: Leases[str]) -> None:
    leases.begin("a", "session", HOUR)
    with pytest.raises(SessionLostError, match="another session has its identifier"):
        leases.begin("a", "other", HOUR)
    leases.end("a", "it was released")
    with pytest.raises(SessionLostError, match="it was released"):
        leases.begin("a", "other", HOUR)
    leases.forbid("b", "nobody wants it")
    with pytest.raises(SessionLostError, match="nobody wants it"):
        leases.begin("b", "other", HOUR)


def test_the_first_reason_stays_and_the_memory_is_bounded(leases: Leases[str]) -> None:
    for name in "abcd":
        leases.begin(name, name, HOUR)
        leases.end(name, f"reason {name}")
        leases.forbid(name, "another")
    assert [leases.reason(name) for name in "abcd"] == [None, "reason b", "reason c", "reason d"]


def test_too_many_calls_of_one_session_are_refused(leases: Leases[str]) -> None:
    async def call() -> None:
        with leases.using("a"):
            await asyncio.sleep(1000)

    async def scenario() -> None:
        leases.begin("a", "session", HOUR)
        calls = [asyncio.ensure_future(call()) for _ in range(MOST_CALLS)]
        await asyncio.sleep(0)
        with pytest.raises(RefusedRequestError, match="32 requests wait for session a"):
            await call()
        leases.end("a", "done")
        await asyncio.gather(*calls, return_exceptions=True)

    asyncio.run(scenario())
