"""scripts/supervise.py, under which the test command runs the linters and pytest."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

SUPERVISE = Path(__file__).resolve().parents[2] / "scripts" / "supervise.py"
# Starts a process in a session of its own, which ignores SIGTERM; writes both process ids.
COMMAND = """
import os, subprocess, sys, time
wait = "from signal import *; signal(SIGTERM, SIG_IGN); print(flush=True); pause()"
child = subprocess.Popen(
    [sys.executable, "-c", wait], start_new_session=True, stdout=subprocess.PIPE
)
child.stdout.readline()
with open(sys.argv[1] + ".new", "w") as file:
    print(os.getpid(), child.pid, os.getppid(), file=file)
os.rename(sys.argv[1] + ".new", sys.argv[1])
time.sleep(float(sys.argv[2]))
sys.exit(7)
"""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has child subreapers")


@contextmanager
def supervised(pids: Path, seconds: int, *more: str) -> "Iterator[subprocess.Popen[str]]":
    command = [
        sys.executable,
        str(SUPERVISE),
        sys.executable,
        "-c",
        COMMAND,
        str(pids),
        str(seconds),
        *more,
    ]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def exists(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def test_the_processes_that_a_command_leaves_are_ended_and_its_exit_status_counts(
    tmp_path: Path,
) -> None:
    pids = tmp_path / "pids"
    with supervised(pids, 0, "--", sys.executable, "-c", "print('second')") as process:
        assert process.communicate(timeout=60)[0] == "second\n"
    assert process.returncode == 7
    assert not any(exists(int(pid)) for pid in pids.read_text().split())


def test_no_process_survives_when_the_run_is_stopped_or_killed(tmp_path: Path) -> None:
    """Neither one that is in another session and ignores SIGTERM, nor the guard."""
    exit_statuses = {
        "SIGINT": 128 + signal.SIGINT,
        "SIGTERM": 128 + signal.SIGTERM,
        "SIGHUP": 128 + signal.SIGHUP,
        "SIGKILL": -signal.SIGKILL,
        "SIGKILL to the group": -signal.SIGKILL,
        "SIGKILL to the guard": 128 + signal.SIGKILL,
    }
    with ExitStack() as stack:
        runs = {
            name: stack.enter_context(supervised(tmp_path / name, 600)) for name in exit_statuses
        }
        wait_until(lambda: all((tmp_path / name).exists() for name in runs))
        pids = {name: [*map(int, (tmp_path / name).read_text().split())] for name in runs}
        for name, run in runs.items():
            number = signal.Signals[name.split()[0]]
            if name.endswith("group"):
                os.killpg(run.pid, number)
            else:
                os.kill(pids[name][-1] if name.endswith("guard") else run.pid, number)
        assert {name: run.wait(60) for name, run in runs.items()} == exit_statuses
    wait_until(lambda: not any(exists(pid) for run in pids.values() for pid in run))
