"""The command at the edges: odd encodings, closed streams, impatient people."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.e2e.command import PATIENCE, ROLLGYM, finish, rollgym, start, wait_for_records


def run_in_shell(folder: Path, line: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ["bash", "-c", line],
        cwd=folder,
        env=os.environ | environment | {"ROLLGYM": str(ROLLGYM)},
        capture_output=True,
        text=True,
        errors="replace",
        timeout=PATIENCE,
        check=False,
    )


def test_a_name_that_the_encoding_lacks_does_not_spoil_the_end(tmp_path: Path) -> None:
    line = '"$ROLLGYM" demo 日本 --tasks 2 --latency 0'
    done = run_in_shell(tmp_path, line, PYTHONIOENCODING="latin-1")
    assert done.returncode == 0, done.stderr
    assert "8 expected = 8 completed" in done.stdout


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_closed_streams_do_not_spoil_the_run(tmp_path: Path, closed: str) -> None:
    done = run_in_shell(tmp_path, f'"$ROLLGYM" demo run --tasks 2 --latency 0 {closed}')
    assert done.returncode == 0, done.stderr
    assert rollgym(tmp_path, "status", "run").coverage.startswith("8 expected = 8 completed")


def test_a_ctrl_c_while_a_command_is_loaded_is_no_traceback(tmp_path: Path) -> None:
    code = (
        "import rollgym.cli.main as cli\n"
        "def interrupted(_arguments): raise KeyboardInterrupt\n"
        "cli.main = interrupted; cli.entry()"
    )
    done = run_in_shell(tmp_path, f'"{ROLLGYM.with_name("python")}" -c "{code}"')
    assert (done.returncode, done.stderr) == (5, "")


def test_a_burst_of_ctrl_c_ends_with_the_status_it_says(tmp_path: Path) -> None:
    process = start(tmp_path, "demo", "run", "--latency", "0.2")
    wait_for_records(tmp_path / "run", 5)
    for _ in range(3):
        process.send_signal(signal.SIGINT)
        time.sleep(0.02)
    ended = finish(process)
    assert ended.status == 5, ended.stderr


def test_an_empty_directory_name_is_wrong_use(tmp_path: Path) -> None:
    ended = rollgym(tmp_path, "demo", "")
    assert ended.status == 2
    assert "give the name of a directory" in ended.stderr


def test_a_module_can_be_run_too(tmp_path: Path) -> None:
    done = run_in_shell(tmp_path, f'"{ROLLGYM.with_name("python")}" -m rollgym --version')
    assert done.stdout.startswith("rollgym ")
