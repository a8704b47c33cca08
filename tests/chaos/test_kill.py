"""`kill -9` at random moments, and the same command again."""

import random
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from rollgym.store import StoreError, open_run
from tests.builders import tasks
from tests.chaos.kill_target import REPEATS, TASKS

KILLS = 20
Key = tuple[int, int]


class Target:
    """The command, always the same, and what its workers noted."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.journal = directory / "run" / "journal.jsonl"
        self.incarnations = 0

    def start(self) -> subprocess.Popen[str]:
        self.incarnations += 1
        self._starts().touch()
        return subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tests.chaos.kill_target",
                self.directory / "run",
                self._starts(),
            ],
            stdout=subprocess.PIPE,
            text=True,
        )

    def started(self) -> set[Key]:
        """The rollouts that the latest incarnation started a worker for."""
        lines = self._starts().read_text().splitlines()
        return {(int(task), int(repeat)) for task, repeat in map(str.split, lines)}

    def finals(self) -> list[Key]:
        """The outcomes on disk, read as plain JSON; a torn last line is none."""
        if not self.journal.exists():
            return []
        whole, _, _torn = self.journal.read_bytes().rpartition(b"\n")
        lines = map(msgspec.json.decode, whole.splitlines())
        return [(line["task"], line["repeat"]) for line in lines if line["final"]]

    def wait_for_more_than(self, count: int) -> None:
        """Until the command is in the middle of collecting."""
        deadline = time.monotonic() + 60
        while len(self.finals()) <= count:
            assert time.monotonic() < deadline, "it collected nothing within a minute"
            time.sleep(0.02)

    def _starts(self) -> Path:
        return self.directory / f"starts-{self.incarnations}"


@pytest.mark.timeout(300)
def test_a_run_killed_twenty_times_has_every_rollout_exactly_once(tmp_path: Path) -> None:
    chance = random.Random(20)
    target = Target(tmp_path)
    for number in range(KILLS):
        before = set(target.finals())
        process = target.start()
        if number % 2:
            target.wait_for_more_than(len(before))
        time.sleep(chance.uniform(0.0, 0.5))
        process.kill()
        process.communicate()
        assert process.returncode == -9, "it ended before it could be killed"
        assert not target.started() & before
        assert before <= set(target.finals())

    before = set(target.finals())
    last = target.start()
    output, _ = last.communicate(timeout=200)
    assert last.returncode == 0, output
    assert not target.started() & before
    finals = target.finals()
    assert len(finals) == len(set(finals)) == TASKS * REPEATS
    assert f"{TASKS * REPEATS} expected = {TASKS * REPEATS} completed" in output
    assert f"all repeats done for {TASKS} of {TASKS} tasks" in output


def test_a_run_killed_at_any_moment_of_its_making_can_be_opened(tmp_path: Path) -> None:
    """Manifest, inputs and journal come into being in an order that no kill can spoil."""
    program = (
        "import sys; from pathlib import Path; from tests.builders import make_run\n"
        "print('ready', flush=True); make_run(Path(sys.argv[1]), 20000)\n"
    )
    chance = random.Random(1)
    for number in range(12):
        directory = tmp_path / str(number)
        process = subprocess.Popen(
            [sys.executable, "-c", program, directory], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(chance.uniform(0.0, 0.06))
        process.kill()
        process.communicate()
        try:
            open_run(directory, tasks(20000)).close()
        except StoreError as error:
            pytest.fail(f"after a kill: {error}")
