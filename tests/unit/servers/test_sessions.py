"""Sessions: who has one, and when it ends."""

import pytest

from rollgym.records import EnvironmentSessionError
from rollgym.servers.sessions import Sessions


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def make(limit: int = 10, lifetime: float = 60) -> tuple[Sessions[str], Clock]:
    clock = Clock()
    return Sessions("shop", lifetime, limit, clock), clock


def use(sessions: Sessions[str], cookie: str | None) -> str:
    with sessions.using(cookie) as state:
        return state


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
    assert sessions.close(cookie) == "one"
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
    assert sessions.expire() == ["two", "three"]
    clock.now = 90
    assert sessions.expire() == ["one"]
    assert len(sessions) == 0


def test_a_session_does_not_expire_while_it_is_used() -> None:
    sessions, clock = make()
    cookie, _ = sessions.open("long"), sessions.open("idle")
    with sessions.using(cookie), sessions.using(cookie):
        clock.now = 1000
        assert sessions.expire() == ["idle"]
        clock.now = 2000
    clock.now = 2059
    assert sessions.expire() == []
    clock.now = 2060
    assert sessions.expire() == ["long"]


def test_a_use_that_fails_counts_as_one_too() -> None:
    sessions, clock = make()
    cookie = sessions.open("state")
    clock.now = 50
    with pytest.raises(KeyError), sessions.using(cookie):
        raise KeyError
    clock.now = 100
    assert sessions.expire() == []


def test_a_session_may_be_closed_while_it_is_used() -> None:
    sessions, _ = make()
    cookie = sessions.open("state")
    with sessions.using(cookie):
        assert sessions.close(cookie) == "state"
    assert len(sessions) == 0
    assert sessions.expire() == []


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
    assert sessions.drain() == ["one", "two"]
    assert sessions.drain() == []
    assert len(sessions) == 0
