import pytest

from rollgym.cli.guard import guarded
from rollgym.engine import ExitStatus, SourceError
from rollgym.store import DiskFullError, IdentityError


def failing(error: BaseException) -> int:
    def command() -> int:
        raise error

    return guarded(command)


def test_a_command_that_ends_gives_its_own_status() -> None:
    assert guarded(lambda: 4) == 4


@pytest.mark.parametrize(
    ("error", "status"),
    [(IdentityError("no"), 6), (DiskFullError("no"), 7), (SourceError("no"), 1)],
)
def test_a_known_error_is_a_message_and_a_status(
    error: Exception, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert failing(error) == status
    assert capsys.readouterr().err == "rollgym: no\n"


def test_a_message_keeps_its_lines_and_notes_but_no_escape_sequences(
    capsys: pytest.CaptureFixture[str],
) -> None:
    error = IdentityError("another run:\n  seed: 1 in the run\n  name: \x1b[31m")
    error.add_note("(compared with a)")
    failing(error)
    assert capsys.readouterr().err.splitlines() == [
        "rollgym: another run:",
        "  seed: 1 in the run",
        "  name: \ufffd[31m",
        "(compared with a)",
    ]


def test_an_unknown_error_is_a_bug_and_keeps_its_traceback() -> None:
    with pytest.raises(ZeroDivisionError):
        failing(ZeroDivisionError())


def test_breaking_out_is_an_interruption(capsys: pytest.CaptureFixture[str]) -> None:
    assert failing(KeyboardInterrupt()) == ExitStatus.INTERRUPTED
    assert "whatever was recorded is kept" in capsys.readouterr().err
