"""`scripts/run.sh`, run for real around a stand-in for `scripts/rollout.py`."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[4] / "scripts"
# Writes down how it was called, and ends with the status that a file names for this rollout.
ROLLOUT = """
import pathlib, sys
here = pathlib.Path(__file__).parent
with (here / "calls").open("a") as calls:
    print(*sys.argv[2:], file=calls)
iteration = next(word for word in sys.argv if word.startswith("iteration="))
status = here / f"{sys.argv[2]}.{iteration}"
sys.exit(int(status.read_text()) if status.exists() else 0)
"""
SETUP = """
root=$(CDPATH='' cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)
venv=$root/.venv
say() { printf '%s\\n' "$*" >&2; }
setup_environment() { :; }
"""


class Clone:
    """A clone with the real run.sh in it."""

    def __init__(self, folder: Path) -> None:
        self.scripts = folder / "scripts"
        self.save_path = folder / "exp 1"
        self.log = folder / "log"
        (folder / ".venv" / "bin").mkdir(parents=True)
        (folder / ".venv" / "bin" / "python").symlink_to(sys.executable)
        self.scripts.mkdir()
        shutil.copy(SCRIPTS / "run.sh", self.scripts)
        (self.scripts / "rollout.py").write_text(ROLLOUT)
        (self.scripts / "setup.sh").write_text(SETUP)

    def run(self, *arguments: str, **variables: str) -> "subprocess.CompletedProcess[str]":
        usual = [] if "--save-path" in arguments else ["--save-path", str(self.save_path)]
        unwanted = {"RANK", "WORLD_SIZE", "SLURM_PROCID", "SLURM_NTASKS"}
        environment = {k: v for k, v in os.environ.items() if k not in unwanted} | variables
        return subprocess.run(
            ["bash", self.scripts / "run.sh", *usual, *arguments],
            env={**environment, "LOG": str(self.log)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def ends_with(self, status: int, split: str, iteration: int) -> None:
        (self.scripts / f"rollout_{split}.iteration={iteration}").write_text(str(status))

    @property
    def calls(self) -> list[str]:
        """The rollouts so far, as `train 0`."""
        calls = (self.scripts / "calls").read_text()
        return [" ".join(found) for found in re.findall(r"rollout_(\w+) .*?iteration=(\d+)", calls)]


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    return Clone(tmp_path)


def test_the_loop_trains_and_tests_in_turn(clone: Clone) -> None:
    done = clone.run("--iterations", "2")
    assert done.returncode == 0, done.stderr
    assert clone.calls == ["train 0", "test 0", "train 1", "test 1"]


def test_tests_come_as_often_as_told(clone: Clone) -> None:
    clone.run("--iterations", "4", "--test-every", "2", "--first", "3")
    assert clone.calls == ["train 3", "test 3", "train 4", "train 5", "test 5", "train 6"]


def test_without_tests_there_is_only_training(clone: Clone) -> None:
    clone.run("--iterations", "2", "--test-every", "0")
    assert clone.calls == ["train 0", "train 1"]


def test_overrides_and_paths_reach_every_rollout(clone: Clone) -> None:
    arguments = ["--iterations", "1", "--data-path", "it's here", "--", "seed=3", "a.b='x y'"]
    assert clone.run(*arguments).returncode == 0
    for line in (clone.scripts / "calls").read_text().splitlines():
        assert f"save_path='{clone.save_path}'" in line
        assert line.endswith("data_path='it\\'s here' seed=3 a.b='x y'")


@pytest.mark.parametrize("status", [5, 1])
def test_what_stops_a_rollout_stops_the_loop_and_the_same_command_goes_on(
    clone: Clone, status: int
) -> None:
    clone.ends_with(status, "test", 0)
    stopped = clone.run("--iterations", "2")
    assert stopped.returncode == status
    assert "the same command continues it" in stopped.stderr
    clone.ends_with(0, "test", 0)
    assert clone.run("--iterations", "2").returncode == 0
    assert clone.calls == ["train 0", "test 0", "test 0", "train 1", "test 1"]


@pytest.mark.parametrize(("statuses", "expected"), [((4, 3), 3), ((0, 4), 4)])
def test_failed_and_omitted_rollouts_do_not_stop_it_but_are_remembered(
    clone: Clone, statuses: tuple[int, int], expected: int
) -> None:
    for split, status in zip(("train", "test"), statuses, strict=True):
        clone.ends_with(status, split, 0)
    for _ in range(2):
        assert clone.run("--iterations", "2").returncode == expected
    assert len(clone.calls) == 4


def test_the_model_is_up_for_the_rollouts_of_an_iteration_alone(clone: Clone) -> None:
    model = ["--start-model", 'echo "up $ITERATION" >>"$LOG"', "--stop-model", 'echo down >>"$LOG"']
    clone.ends_with(6, "train", 1)
    assert clone.run("--iterations", "2", *model).returncode == 6
    assert clone.log.read_text().split("\n") == ["up 0", "down", "up 1", "down", ""]
    assert "env_config.startup_timeout=1800" in (clone.scripts / "calls").read_text()


def test_a_model_that_cannot_be_started_stops_the_loop(clone: Clone) -> None:
    done = clone.run("--iterations", "1", "--start-model", "exit 9")
    assert done.returncode == 1
    assert "starting the model ended with status 9: exit 9" in done.stderr
    assert not (clone.scripts / "calls").exists()


def test_ranks_keep_their_own_count(clone: Clone) -> None:
    clone.run("--iterations", "1", RANK="0", WORLD_SIZE="2")
    clone.run("--iterations", "1", RANK="1", WORLD_SIZE="2")
    assert clone.calls == ["train 0", "test 0"] * 2


def test_wrong_use_is_explained(clone: Clone) -> None:
    cases = [
        (["--iterations", "x"], "--iterations needs a number"),
        (["--iterations"], "--iterations needs a value"),
        (["--iteration", "3"], "unknown option --iteration"),
        (["--iterations", "1", "--save-path", ""], "--save-path is missing"),
        (["--iterations", "1", "--test-every", "often"], "--test-every needs a number"),
    ]
    for arguments, words in cases:
        done = clone.run(*arguments)
        assert done.returncode == 2
        assert words in done.stderr


def test_help_lists_every_option(clone: Clone) -> None:
    helped = clone.run("--help")
    assert helped.returncode == 0
    for option in ("--iterations", "--save-path", "--data-path", "--start-model", "--test-every"):
        assert option in helped.stdout
