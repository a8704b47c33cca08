"""The bundled language model on tasks of MiniWoB++ in Chromium, in `make test-embedded` only."""

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from rollgym.records import Completed
from rollgym.store import run_records
from webgym.rollout.iteration import IterationPaths
from webgym.tasks.file import find_task_file
from webgym.trajectory.records import Trajectory

pytestmark = [pytest.mark.embedded, pytest.mark.timeout(600)]
ROOT = Path(__file__).parents[2]


def test_one_command_starts_the_model_the_pages_and_a_browser_and_the_model_solves_tasks(
    tmp_path: Path,
) -> None:
    tasks = tmp_path / "tasks.jsonl"
    rows = find_task_file("miniwob/demo.jsonl").read_bytes().splitlines(keepends=True)
    tasks.write_bytes(b"".join(rows[:4]))
    settings = [f"save_path={tmp_path / 'run'}", f"env_config.train_tasks={tasks}"]
    ended = subprocess.run(
        [sys.executable, ROOT / "scripts/rollout.py", "--config-name", "small_model", *settings],
        capture_output=True,
        text=True,
        timeout=590,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    outcomes = [
        entry.attempt.outcome
        for entry, _ in run_records(IterationPaths(tmp_path / "run", "train", 0).run)
    ]
    completed = [each for each in outcomes if isinstance(each, Completed)]
    assert len(completed) == len(outcomes) == 8
    assert any(each.succeeded for each in completed)
    for each in completed:
        trajectory = msgspec.json.decode(each.result, type=Trajectory)
        replies = [step.response for step in trajectory.steps if step.response]
        assert replies
        assert all(reply.model == "SmolLM2-135M-Instruct" for reply in replies)
        assert all(reply.parse_failure is None for reply in replies), "the grammar allows actions"
