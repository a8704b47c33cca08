"""Sessions: who has one, who may use it when, and when it ends."""

import asyncio
from collections.abc import Sequence

import pytest

from rollgym.records import EnvironmentSessionError
from rollgym.servers import sessions as sessions_module
from rollgym.servers.sessions import Session, Sessions


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def make(limit: int = 10, lifetime: float = 60) -> tuple[Sessions[str], Clock]:
    clock = Clock()
    return Sessions("shop", lifetime, limit, clock), clock


def use(sessions: Sessions[str], cookie: str | None) -> str:
    async def call() -> str:
        async with sessions.using(cookie) as state:
            return state

    return asyncio.run(call())


def states(ended: Sequence[Session[str] | None]) -> list[str | None]:
    return [None if session is None else session.state for session in ended]


def test_a_session_is_found_by_its_cookie() -> None:
    sessions, _ = make()
    cookies = {state: sessions.open(state) for state in ("one", "two")}
    assert {state: use(sessions, cookie) for state, cookie in cookies.items()} == {
        "one": "one",
        "two": "two",
    }
    assert len(set(cookies.values())) == len(sessions) == 2


def test_a_cookie_can_be_sent_as_it_is() -> None:
    sessions, _ = make()
    assert sessions.open("state").replace(".", "").isalnum()


def test_a_closed_session_is_gone() -> None:
    sessions, _ = make()
    cookie = sessions.open("one")
    assert states([sessions.close(cookie)]) == ["one"]
    assert sessions.close(cookie) is None
    with pytest.raises(EnvironmentSessionError, match="shop does not have this session"):
        use(sessions, cookie)


def test_nothing_can_be_closed_without_a_cookie() -> None:
    sessions, _ = make()
    sessions.open("one")
    assert sessions.close(None) is None
    assert sessions.close("") is None
    with pytest.raises(EnvironmentSessionError, match="did not issue"):
        sessions.close("forged.cookie")
    assert len(sessions) == 1


def test_cookies_of_another_server_or_of_none_are_refused() -> None:
    sessions, _ = make()
    others, _ = make()
    mine = sessions.open("one")
    for cookie in (others.open("one"), mine[:-1], mine + "0", mine.upper(), "x", ".", "\udcff"):
        with pytest.raises(EnvironmentSessionError, match="shop did not issue this session cookie"):
            use(sessions, cookie)
    for nothing in (None, ""):
        with pytest.raises(EnvironmentSessionError, match="call /seed_session first"):
            use(sessions, nothing)


def test_sessions_expire_in_the_order_of_their_last_use() -> None:
    sessions, clock = make()
    cookies = [sessions.open(state) for state in ("one", "two", "three")]
    clock.now = 30
    use(sessions, cookies[0])
    clock.now = 59.9
    assert sessions.expire() == []
    clock.now = 60
    assert states(sessions.expire()) == ["two", "three"]
    clock.now = 90
    assert states(sessions.expire()) == ["one"]
    assert len(sessions) == 0


def test_a_session_does_not_expire_while_it_is_used() -> None:
    async def scenario() -> None:
        sessions, clock = make()
        cookie, _ = sessions.open("long"), sessions.open("idle")
        async with sessions.using(cookie):
            clock.now = 1000
            assert states(sessions.expire()) == ["idle"]
            clock.now = 2000
        clock.now = 2059
        assert sessions.expire() == []
        clock.now = 2060
        assert states(sessions.expire()) == ["long"]

    asyncio.run(scenario())


def test_a_use_that_fails_counts_as_one_too() -> None:
    async def scenario() -> None:
        sessions, clock = make()
        cookie = sessions.open("state")
        clock.now = 50
        with pytest.raises(KeyError):
            async with sessions.using(cookie):
                raise KeyError
        clock.now = 100
        assert sessions.expire() == []

    asyncio.run(scenario())


def test_a_session_may_be_closed_while_it_is_used() -> None:
    async def scenario() -> None:
        sessions, _ = make()
        cookie = sessions.open("state")
        async with sessions.using(cookie):
            assert states([sessions.close(cookie)]) == ["state"]
        assert len(sessions) == 0
        assert sessions.expire() == []

    asyncio.run(scenario())


def test_calls_use_a_session_one_at_a_time_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that is cancelled leaves the queue, and the queue is bounded."""
    monkeypatch.setattr(sessions_module, "MOST_CALLS", 4)

    async def scenario() -> list[int]:
        sessions, _ = make()
        cookie, order, inside = sessions.open("state"), list[int](), 0

        async def call(number: int) -> None:
            nonlocal inside
            async with sessions.using(cookie):
                inside += 1
                await asyncio.sleep(0)
                assert inside == 1
                inside -= 1
                order.append(number)

        calls = [asyncio.ensure_future(call(number)) for number in range(4)]
        await asyncio.sleep(0)
        with pytest.raises(EnvironmentSessionError, match="4 calls of one session of shop wait"):
            await call(4)
        calls[2].cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        await call(5)
        return order

    assert asyncio.run(scenario()) == [0, 1, 3, 5]


def test_a_call_that_waits_for_a_session_learns_that_it_was_closed() -> None:
    async def scenario() -> None:
        sessions, _ = make()
        cookie = sessions.open("state")

        async def call() -> None:
            async with sessions.using(cookie):
                raise AssertionError("the session has ended")

        async with sessions.using(cookie):
            waiting = asyncio.ensure_future(call())
            await asyncio.sleep(0)
            sessions.close(cookie)
        with pytest.raises(EnvironmentSessionError, match="does not have this session"):
            await waiting

    asyncio.run(scenario())


def test_there_are_only_so_many_sessions() -> None:
    sessions, clock = make(limit=2)
    taken = []
    for state in ("one", "two"):
        taken.append(sessions.full)
        sessions.open(state)
    assert [*taken, sessions.full] == [False, False, True]
    for refuse in (sessions.check_capacity, lambda: sessions.open("three")):
        with pytest.raises(EnvironmentSessionError, match="shop has 2 open sessions"):
            refuse()
    clock.now = 60
    sessions.expire()
    sessions.open("three")


def test_all_sessions_can_be_ended_at_once() -> None:
    sessions, _ = make()
    for state in ("one", "two"):
        sessions.open(state)
    assert states(sessions.drain()) == ["one", "two"]
    assert sessions.drain() == []
    assert len(sessions) == 0
