"""What a command's errors and its end mean to the shell."""

import subprocess
import sys

import pytest

from rollgym.cli.process import exit_status_of
from rollgym.engine import ExitStatus, SourceError
from rollgym.store import DiskFullError, IdentityError


def failing(error: BaseException) -> int:
    def command() -> int:
        raise error

    return exit_status_of(command)


def test_a_command_that_ends_gives_its_own_status() -> None:
    assert exit_status_of(lambda: 4) == 4


def test_a_known_error_is_a_message_and_a_status(capsys: pytest.CaptureFixture[str]) -> None:
    cases: list[tuple[Exception, int]] = [
        (IdentityError("no"), 6),
        (DiskFullError("no"), 7),
        (SourceError("no"), 1),
    ]
    for error, status in cases:
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
    assert "every record that was written is kept" in capsys.readouterr().err


def test_a_file_of_another_user_is_a_message() -> None:
    program = """
from rollgym.cli.process import end_process
def command():
    raise PermissionError(13, "Permission denied", "/their/run")
end_process(command)
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert (ended.returncode, ended.stderr) == (
        7,
        "rollgym: /their/run: permission denied: check who owns it and its folders\n",
    )


EXIT_WHILE_PRINTING = """
import io, sys
from rollgym.cli.process import exit_now

class Interrupted(io.RawIOBase):
    def writable(self):
        return True

    def write(self, data):
        exit_now(5)  # as the handler of a signal that comes now would

sys.stdout = io.TextIOWrapper(io.BufferedWriter(Interrupted()))
print("text", flush=True)
"""


def test_a_signal_in_the_middle_of_printing_ends_the_process_with_its_status() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", EXIT_WHILE_PRINTING], capture_output=True, timeout=60, check=False
    )
    assert (ended.returncode, ended.stderr) == (5, b"")
