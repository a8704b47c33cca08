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
from tests.chaos.kill_target import REPEATS

Key = tuple[int, int]


class Target:
    """The command, always the same, and the keys that its workers logged."""

    def __init__(self, directory: Path, tasks: int) -> None:
        self.directory = directory
        self.tasks = tasks
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
                str(self.tasks),
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
        while len(self.finals()) <= min(count, self.tasks * REPEATS - 1):
            assert time.monotonic() < deadline, "it collected nothing within a minute"
            time.sleep(0.02)

    def _starts(self) -> Path:
        return self.directory / f"starts-{self.incarnations}"


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("kills", "count"), [(4, 800), pytest.param(20, 5_000, marks=pytest.mark.campaign)]
)
def test_a_run_killed_again_and_again_has_every_rollout_exactly_once(
    tmp_path: Path, kills: int, count: int
) -> None:
    chance = random.Random(20)
    target = Target(tmp_path, count)
    for number in range(kills):
        before = set(target.finals())
        process = target.start()
        if number % 2:
            target.wait_for_more_than(len(before))
        time.sleep(chance.uniform(0.0, 0.4))
        process.kill()
        process.communicate()
        assert process.returncode in (-9, 0)
        assert not target.started() & before
        assert before <= set(target.finals())

    before = set(target.finals())
    last = target.start()
    output, _ = last.communicate(timeout=200)
    assert last.returncode == 0, output
    assert not target.started() & before
    finals = target.finals()
    assert len(finals) == len(set(finals)) == count * REPEATS
    assert f"{count * REPEATS} expected = {count * REPEATS} completed" in output
    assert f"all repeats done for {count} of {count} tasks" in output


@pytest.mark.parametrize("kills", [3, pytest.param(20, marks=pytest.mark.campaign)])
def test_a_run_killed_while_it_is_made_can_be_opened(tmp_path: Path, kills: int) -> None:
    """Manifest, inputs and journal are made in an order that survives a kill at any moment."""
    program = (
        "import sys; from pathlib import Path; from tests.builders import make_run\n"
        "print('ready', flush=True); make_run(Path(sys.argv[1]), 5000)\n"
    )
    chance = random.Random(1)
    for number in range(kills):
        directory = tmp_path / str(number)
        process = subprocess.Popen(
            [sys.executable, "-c", program, directory], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(chance.uniform(0.0, 0.03))
        process.kill()
        process.communicate()
        try:
            open_run(directory, tasks(5000)).close()
        except StoreError as error:
            pytest.fail(f"after a kill: {error}")
