"""Signals to collecting processes, on uvloop and on asyncio's own loop."""

import asyncio
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rollgym.engine import WorkItem
from rollgym.records import Completed, Outcome
from tests.builders import read_json_lines
from tests.collecting import Collector, complete

PROGRAM = """
import asyncio, sys, time
from pathlib import Path
if sys.argv[2] == "asyncio":
    sys.modules["uvloop"] = None
from rollgym.engine import StopRequested
from rollgym.records import Completed
from tests.collecting import Collector

class Reporter:
    name = "reporter"
    def observe(self, events):
        if any(isinstance(event, StopRequested) for event in events):
            print("stopping", flush=True)

async def worker(item, attempt, deadline):
    if item.task.index < 10:
        return Completed(1.0)
    if item.task.index == 13:
        print("busy", flush=True)
    if sys.argv[3] == "block":
        time.sleep(3600)
    while not Path(sys.argv[3]).exists():
        await asyncio.sleep(0.01)
    return Completed(0.5)

collector = Collector(Path(sys.argv[1]), count=100)
coverage = collector(worker, drain_timeout=float(sys.argv[4]), observers=[Reporter()])
print(coverage)
sys.exit(coverage.exit_status)
"""


class Program:
    """A collecting process, busy with its tasks 10 to 13 until the file `until` exists."""

    def __init__(self, directory: Path, loop: str, until: str, drain: float = 600.0) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, directory, loop, until, str(drain)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        if until != "block":
            self.expect("busy")

    def expect(self, line: str) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == f"{line}\n"

    def end(self) -> tuple[int, str]:
        try:
            output, errors = self.process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
            raise
        return self.process.returncode, output + errors


@pytest.mark.parametrize(
    ("number", "loop"), [(signal.SIGINT, "uvloop"), (signal.SIGTERM, "asyncio")]
)
def test_one_signal_finishes_the_running_attempts(
    tmp_path: Path, loop: str, number: signal.Signals
) -> None:
    program = Program(tmp_path / "run", loop, until=str(tmp_path / "done"))
    program.process.send_signal(number)
    program.expect("stopping")
    (tmp_path / "done").touch()
    status, output = program.end()
    assert status == 5, output
    assert "14 completed + 0 failed + 0 omitted + 86 unresolved" in output
    assert len(read_json_lines(tmp_path / "run" / "journal.jsonl")) == 14


def test_two_signals_stop_now(tmp_path: Path) -> None:
    program = Program(tmp_path, "uvloop", until="/never")
    program.process.send_signal(signal.SIGINT)
    program.expect("stopping")
    program.process.send_signal(signal.SIGINT)
    status, output = program.end()
    assert status == 5, output
    assert "10 completed + 0 failed + 0 omitted + 90 unresolved" in output


def test_draining_after_a_signal_is_bounded(tmp_path: Path) -> None:
    program = Program(tmp_path, "asyncio", until="/never", drain=0.1)
    program.process.send_signal(signal.SIGTERM)
    status, output = program.end()
    assert status == 5, output


def test_further_signals_interrupt_workers_that_block_the_loop(tmp_path: Path) -> None:
    program = Program(tmp_path, "uvloop", until="block")
    journal = tmp_path / "journal.jsonl"
    deadline = time.monotonic() + 60
    while program.process.poll() is None and time.monotonic() < deadline:
        if journal.exists() and len(journal.read_bytes().splitlines()) >= 8:
            program.process.send_signal(signal.SIGINT)
        time.sleep(0.05)
    status, output = program.end()
    assert status != 0
    assert "KeyboardInterrupt" in output
    assert len(read_json_lines(journal)) >= 8


def test_after_a_collection_the_handlers_are_those_of_before(tmp_path: Path) -> None:
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.getsignal(number) for number in numbers]
    Collector(tmp_path / "run")(complete)
    assert [signal.getsignal(number) for number in numbers] == before


def _sleep(writing: int) -> None:
    os.write(writing, b"ready")
    time.sleep(3600)


def _terminate_a_child() -> bool:
    reading, writing = os.pipe()
    child = multiprocessing.get_context("fork").Process(target=_sleep, args=(writing,))
    child.start()
    os.read(reading, 5)  # Python drops signals that arrive during the fork
    child.terminate()
    child.join(60)
    ended = not child.is_alive()
    child.kill()
    child.join()
    os.close(reading)
    os.close(writing)
    return ended


def test_a_child_forked_by_a_worker_can_be_terminated(tmp_path: Path) -> None:
    async def worker(item: WorkItem, attempt: int, deadline: float) -> Outcome:
        return Completed(float(await asyncio.to_thread(_terminate_a_child)))

    collector = Collector(tmp_path / "run", count=1)
    collector(worker, attempt_timeout=120.0)
    assert collector.finals[0, 0]["reward"] == 1.0
