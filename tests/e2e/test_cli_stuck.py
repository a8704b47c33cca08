"""Workers that will not end must not keep the command from ending."""

import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.e2e.command import Ended, finish, wait_until

PROGRAM = """
import asyncio, sys, time
from pathlib import Path
from rollgym.cli.collection import BareJob, RunRequest, run_collection
from rollgym.cli.guard import guarded
from rollgym.cli.leaving import leave
from rollgym.engine import NO_RETRIES, Fixed, Policy
from rollgym.records import Row, Task

async def worker(item, attempt, deadline):
    (Path(sys.argv[1]).parent / "working").touch()
    while True:
        try:
            await asyncio.to_thread(time.sleep, 60)
        except asyncio.CancelledError:
            pass

policy = Policy(
    concurrency=Fixed(1),
    retry=NO_RETRIES,
    attempt_timeout=float(sys.argv[2]),
    cancel_grace=float(sys.argv[3]),
)
tasks = [Task(0, Row.of({}))]
job = BareJob(worker, lambda store: [])
request = RunRequest(directory=Path(sys.argv[1]))
leave(guarded(lambda: run_collection(request, tasks, job, policy)))
"""


def start_stuck(folder: Path, attempt_timeout: float, grace: float) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, folder / "run", str(attempt_timeout), str(grace)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_worker_left_behind_in_a_thread_does_not_hold_up_the_exit(tmp_path: Path) -> None:
    began = time.monotonic()
    ended: Ended = finish(start_stuck(tmp_path, attempt_timeout=0.2, grace=0.2))
    assert time.monotonic() - began < 20
    assert ended.status == 3, ended.stderr
    assert "1 worker ignored its cancellation and was left behind" in ended.lines
    assert "1 x timeout" in ended.stdout
    assert ended.lines[-2].startswith("exit status 3: ")


def test_a_third_ctrl_c_breaks_out(tmp_path: Path) -> None:
    process = start_stuck(tmp_path, attempt_timeout=600, grace=600)
    wait_until((tmp_path / "working").exists)
    began = time.monotonic()
    for _ in range(3):
        process.send_signal(signal.SIGINT)
        time.sleep(0.3)
    ended = finish(process)
    assert time.monotonic() - began < 20
    assert ended.status == 5
    assert "stopped at once; whatever was recorded is kept" in ended.stderr
    assert "Traceback" not in ended.stderr
