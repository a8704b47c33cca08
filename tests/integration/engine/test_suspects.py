"""A rollout that freezes or kills the process is not tried for ever, and no other is blamed."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.integration.engine.dying import BAD, PARALLEL, TASKS

REPOSITORY = Path(__file__).parents[3]
CRASHED = [[BAD, "crash", False], [BAD, "crash", True]]


def lives(mode: str, directory: Path) -> list[list[Any]]:
    """The journal after each process."""
    command = [sys.executable, "-m", "tests.integration.engine.dying", mode, str(directory)]
    ended = subprocess.run(command, cwd=REPOSITORY, capture_output=True, timeout=300, check=False)
    assert ended.returncode == 0, ended.stderr.decode()
    found: list[list[Any]] = json.loads(ended.stdout)
    return found


def test_a_rollout_that_froze_the_process_twice_is_recorded_as_failed(tmp_path: Path) -> None:
    first, second, third, fourth = lives("freeze", tmp_path)
    assert not any(kind for _, kind, _ in first)
    assert len(second) == TASKS  # everything else, and the first crash
    assert [each for each in second if each[1]] == CRASHED[:1]
    assert third == fourth == [*second, CRASHED[1]]
    detail = (tmp_path / "journal.jsonl").read_text()
    assert "tests/integration/engine/dying.py:" in detail


def test_a_rollout_that_killed_the_process_is_found_among_those_in_flight(tmp_path: Path) -> None:
    first, second, third, fourth = lives("crash", tmp_path)
    assert not any(kind for _, kind, _ in first + second)
    assert [each for each in third if each[1]] == CRASHED[:1]
    assert fourth == [*third, CRASHED[1]]
    assert len(third) == TASKS  # everything else, and the first crash
    assert "Segmentation fault" in (tmp_path / "journal.jsonl").read_text()


def test_a_killed_process_blames_no_rollout(tmp_path: Path) -> None:
    assert PARALLEL > 1
    assert lives("killed", tmp_path) == [[], [], [], []]
