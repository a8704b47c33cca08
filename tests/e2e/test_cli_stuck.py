"""Workers that do not end must not keep the command from ending."""

import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.e2e.command import Ended, finish, wait_until

PROGRAM = """
import asyncio, signal, sys, time
from pathlib import Path
from rollgym.cli.process import end_process, exit_status_of
from rollgym.engine import NO_RETRIES, Fixed, Policy, collect, run
from rollgym.records import Row, Task
from rollgym.store import open_run

signal.signal(signal.SIGINT, signal.default_int_handler)

async def worker(item, attempt, deadline):
    (Path(sys.argv[1]).parent / "working").touch()
    while True:
        try:
            await asyncio.to_thread(time.sleep, 600)
        except asyncio.CancelledError:
            pass

policy = Policy(
    concurrency=Fixed(1),
    retry=NO_RETRIES,
    attempt_timeout=float(sys.argv[2]),
    cancel_grace=float(sys.argv[3]),
)

def command():
    with open_run(Path(sys.argv[1]), [Task(0, Row.of({}))]) as store:
        coverage = run(collect(store.inputs, worker, store, policy))
    print(coverage, coverage.abandoned)
    return coverage.exit_status

end_process(lambda: exit_status_of(command))
"""


def start_stuck(folder: Path, attempt_timeout: float, grace: float) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, folder / "run", str(attempt_timeout), str(grace)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_an_abandoned_worker_in_a_thread_does_not_hold_up_the_exit(tmp_path: Path) -> None:
    ended: Ended = finish(start_stuck(tmp_path, attempt_timeout=0.2, grace=0.2))
    assert ended.status == 3, ended.stderr
    assert "1 expected = 0 completed + 1 failed + 0 omitted + 0 unresolved 1" in ended.stdout


def test_a_third_ctrl_c_stops_at_once(tmp_path: Path) -> None:
    process = start_stuck(tmp_path, attempt_timeout=600, grace=600)
    wait_until((tmp_path / "working").exists)
    for _ in range(3):
        process.send_signal(signal.SIGINT)
        time.sleep(0.3)
    ended = finish(process)
    assert ended.status == 5
    assert "stopped at once; every record that was written is kept" in ended.stderr
    assert "Traceback" not in ended.stderr
