"""Versions of turns by their times."""

import pytest

from rollgym.engine.control import PolicyVersion
from rollgym.engine.versions import with_versions
from rollgym.records import Completed, OmitReason, Omitted
from rollgym.records.version import PolicyTurn, VersionPart

HISTORY = [PolicyVersion(f"{7 + n}", 100.0 + 10 * n, 0.0) for n in range(3)]


def labelled(start: float | None, seconds: float, *, late: float = 0.0) -> tuple[str, ...]:
    """The versions of a turn of an attempt that began at 100."""
    outcome = Completed(1.0, turns=(PolicyTurn(start=start, seconds=seconds),))
    turns = with_versions(outcome, HISTORY, 100.0, late).turns
    return turns[0].versions if turns else ()


@pytest.mark.parametrize(
    ("start", "seconds", "versions"),
    [
        (1.0, 8.0, ("7",)),
        (10.01, 9.0, ("8",)),
        (10.0, 9.0, ("7", "8")),  # it may have begun a moment earlier
        (9.0, 2.0, ("7", "8")),
        (5.0, 20.0, ("7", "8", "9")),
        (30.0, 1.0, ("9",)),
        (-5.0, 1.0, ()),  # before any version was known
        (-5.0, 6.0, ("", "7")),
        (None, 1.0, ()),  # of an earlier attempt
    ],
)
def test_a_turn_has_every_version_that_was_current_while_it_may_have_run(
    start: float | None, seconds: float, versions: tuple[str, ...]
) -> None:
    assert labelled(start, seconds) == versions


def test_work_that_may_have_begun_late_has_the_versions_of_that_time_too() -> None:
    assert labelled(8.0, 1.0, late=0.5) == ("7",)
    assert labelled(8.0, 1.0, late=2.0) == ("7", "8")


def test_what_a_server_says_is_kept_and_turns_without_any_version_are_left_out() -> None:
    said = PolicyTurn(start=1.0, seconds=15.0, version="server")
    half = PolicyTurn(start=1.0, parts=(VersionPart(""), VersionPart("x")), version="x")
    outcome = Omitted(OmitReason.STRAGGLER, turns=(said, half, PolicyTurn(start=1.0)))
    turns = with_versions(outcome, HISTORY, 100.0, 5.0).turns
    assert turns[:2] == (said, half)
    assert turns[2].version == "7"
    unknown = Completed(1.0, turns=(PolicyTurn(start=1.0),))
    assert with_versions(unknown, (), 100.0).turns == ()
