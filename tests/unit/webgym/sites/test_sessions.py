from webgym.served import is_session_name, new_session_name
from webgym.sites.sessions import VISITS_KEPT, SiteSessions, Visit
from webgym.sites.site import append_bounded


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_session_is_kept_and_not_shared() -> None:
    sessions = SiteSessions()
    sessions.visit("a", known_before=False).shop.saved.append("x")
    assert sessions.visit("a", known_before=True).shop.saved == ["x"]
    assert sessions.visit("b", known_before=False).shop.saved == []
    assert len(sessions.visit("b", known_before=True).booking.bookings) == 1


def test_the_least_recent_session_is_removed_first() -> None:
    sessions = SiteSessions(limit=2)
    for name in ("a", "b", "a", "c"):
        sessions.visit(name, known_before=False)
    assert len(sessions) == 2
    assert sessions.find("b") is None
    assert sessions.find("a") is not None


def test_a_session_expires_when_it_has_been_idle() -> None:
    clock = Clock()
    sessions = SiteSessions(seconds=10, clock=clock)
    sessions.visit("a", known_before=False)
    clock.now = 9
    sessions.visit("b", known_before=False)
    clock.now = 11
    assert sessions.find("a") is None
    assert sessions.find("b") is not None
    assert len(sessions) == 1


def test_looking_at_a_session_does_not_keep_it() -> None:
    clock = Clock()
    sessions = SiteSessions(seconds=10, clock=clock)
    sessions.visit("a", known_before=False)
    clock.now = 9
    assert sessions.find("a") is not None
    clock.now = 11
    assert sessions.find("a") is None


def test_a_session_that_was_removed_is_marked_as_lost() -> None:
    sessions = SiteSessions(limit=1)
    assert not sessions.visit("a", known_before=False).lost
    sessions.visit("b", known_before=False)
    assert sessions.visit("a", known_before=True).lost


def test_a_reset_session_starts_over_within_the_limit() -> None:
    sessions = SiteSessions(limit=1)
    sessions.visit("a", known_before=False).shop.saved.append("x")
    sessions.reset("a")
    session = sessions.find("a")
    assert session is not None
    assert (session.shop.saved, session.lost) == ([], False)
    sessions.reset("b")
    assert len(sessions) == 1


def test_only_the_latest_visits_are_kept_and_all_are_counted() -> None:
    session = SiteSessions().visit("a", known_before=False)
    for number in range(VISITS_KEPT + 5):
        session.add_visit(Visit(f"/{number}", ""))
    assert len(session.visits) == VISITS_KEPT
    assert session.visits[0].path == "/5"
    assert session.visit_count == VISITS_KEPT + 5


def test_appending_is_bounded() -> None:
    kept = [1, 2, 3]
    append_bounded(kept, 4, 3)
    assert kept == [2, 3, 4]


def test_a_name_has_letters_and_digits_only() -> None:
    assert is_session_name(new_session_name())
    assert new_session_name() != new_session_name()
    for text in ("", "a b", "a;b", "../x", "ä", "a" * 65, "a\n"):
        assert not is_session_name(text)
