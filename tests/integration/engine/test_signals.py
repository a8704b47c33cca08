"""Real signals to real processes, on uvloop and on asyncio's own loop."""

import asyncio
import multiprocessing
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
from rollgym.records import Completed
from tests.collecting import Collector

async def worker(item, attempt, deadline):
    if item.task.index < 10:
        return Completed(1.0)
    if item.task.index == 10:
        print("busy", flush=True)
    if sys.argv[3] == "block":
        time.sleep(3600)
    await asyncio.sleep(float(sys.argv[3]))
    return Completed(0.5)

collector = Collector(Path(sys.argv[1]), count=100)
coverage = collector(worker, drain_timeout=float(sys.argv[4]))
print(coverage)
sys.exit(coverage.exit_status)
"""


class Program:
    """A collecting process, busy with its eleventh task."""

    def __init__(self, directory: Path, loop: str, nap: str, drain: float = 60.0) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, directory, loop, nap, str(drain)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "busy\n"
        time.sleep(0.1)

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)
        time.sleep(0.2)

    def end(self) -> tuple[int, str]:
        try:
            output, errors = self.process.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
            raise
        return self.process.returncode, output + errors


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_one_signal_finishes_what_is_in_flight(
    tmp_path: Path, loop: str, number: signal.Signals
) -> None:
    program = Program(tmp_path, loop, nap="1.0")
    program.signal(number)
    status, output = program.end()
    assert status == 5, output
    assert "14 completed + 0 failed + 0 omitted + 86 unresolved" in output
    assert len(read_json_lines(tmp_path / "journal.jsonl")) == 14


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_two_signals_stop_now(tmp_path: Path, loop: str) -> None:
    program = Program(tmp_path, loop, nap="3600")
    program.signal(signal.SIGINT)
    program.signal(signal.SIGINT)
    status, output = program.end()
    assert status == 5, output
    assert "10 completed + 0 failed + 0 omitted + 90 unresolved" in output


def test_draining_after_a_signal_is_bounded(tmp_path: Path) -> None:
    program = Program(tmp_path, "uvloop", nap="3600", drain=0.3)
    program.signal(signal.SIGTERM)
    status, output = program.end()
    assert status == 5, output


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_further_signals_break_out_of_workers_that_block_the_loop(
    tmp_path: Path, loop: str
) -> None:
    program = Program(tmp_path, loop, nap="block")
    for _ in range(3 + 4):
        program.signal(signal.SIGINT)
    status, output = program.end()
    assert status != 0
    assert "KeyboardInterrupt" in output
    assert len(read_json_lines(tmp_path / "journal.jsonl")) >= 8


def test_after_a_collection_the_handlers_are_those_of_before(tmp_path: Path) -> None:
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.getsignal(number) for number in numbers]
    Collector(tmp_path / "run")(complete)
    assert [signal.getsignal(number) for number in numbers] == before


def _terminate_a_child() -> bool:
    child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(30,))
    child.start()
    time.sleep(0.2)
    child.terminate()
    child.join(3)
    ended = not child.is_alive()
    child.kill()
    child.join()
    return ended


def test_a_child_forked_by_a_worker_can_be_terminated(tmp_path: Path) -> None:
    async def worker(item: WorkItem, attempt: int, deadline: float) -> Outcome:
        return Completed(float(await asyncio.to_thread(_terminate_a_child)))

    collector = Collector(tmp_path / "run", count=1)
    collector(worker)
    assert collector.finals[0, 0]["reward"] == 1.0
