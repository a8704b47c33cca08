"""examples/grpo trains a tiny model on the CPU, and is killed: `make test-grpo` brings torch.

The model has random weights, so what it says means nothing. Its environment rewards the share of
vowels, so every group has different rewards, and there is something to learn.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from tests.counterparts.processes import ROOT

pytestmark = [pytest.mark.grpo, pytest.mark.timeout(900)]
PATIENCE = 300
APP = """
from rollgym import ResourcesServer, Response, TaskRow, Verdict


class VowelServer(ResourcesServer[TaskRow, None]):
    async def verify(self, task: TaskRow, response: Response, state: None) -> Verdict:
        text = response.text.strip().lower()
        share = sum(text.count(vowel) for vowel in "aeiou") / max(1, len(text))
        return Verdict(reward=share, success=share > 0.5)
"""
CONFIG = """
vowels_resources_server:
  resources_servers:
    vowels: {entrypoint: app.py}
vowels_simple_agent:
  responses_api_agents:
    simple_agent:
      entrypoint: app.py
      resources_server: {type: resources_servers, name: vowels_resources_server}
      model_server: {type: responses_api_models, name: policy_model}
"""
GENERATE = """
from rollgym.servers.generator import run_generator


def generate_rows(count, seed):
    for number in range(count):
        content = f"Say word {seed}.{number}"
        yield {"responses_create_params": {"input": [{"role": "user", "content": content}]}}


if __name__ == "__main__":
    run_generator("Vowels.", generate_rows)
"""


@pytest.fixture(scope="module")
def python() -> str:
    found = os.environ.get("ROLLGYM_GRPO_PYTHON")
    if not found:
        pytest.skip("ROLLGYM_GRPO_PYTHON names no Python with torch: run make test-grpo")
    return found


class Training:
    """The command of examples/grpo in a folder."""

    def __init__(self, python: str, folder: Path) -> None:
        self.output = folder / "run"
        for name, text in (("app", APP), ("generate", GENERATE)):
            place = folder / "resources_servers" / "vowels" / f"{name}.py"
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)
        (place.parent / "configs").mkdir()
        (place.parent / "configs" / "vowels.yaml").write_text(CONFIG)
        self._folder = folder
        self._environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join((str(ROOT), str(folder))),
            "HF_HUB_OFFLINE": "1",
            "CUDA_VISIBLE_DEVICES": "",
            "OMP_NUM_THREADS": "1",
        }
        make = [python, "-m", "tests.vllm.make_models", str(folder / "models")]
        subprocess.run(make, cwd=ROOT, env=self._environment, check=True, timeout=PATIENCE)
        self._options = (
            f"--output {self.output} --model {folder / 'models' / 'text'} --environment vowels "
            "--batch 32 --repeats 2 --temperature 1 --learning-rate 0.002 "
        )
        self._python = python
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, options: str) -> None:
        command = [self._python, "-m", "examples.grpo", *(self._options + options).split()]
        self._process = subprocess.Popen(
            command, cwd=self._folder, env=self._environment, stdout=sys.stderr
        )

    def wait_for_steps(self, count: int) -> None:
        deadline = time.monotonic() + PATIENCE
        while len(self.metrics) < count:
            assert self._process is not None
            assert self._process.poll() is None, self.log
            assert time.monotonic() < deadline, self.log
            time.sleep(0.05)

    def kill(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(timeout=PATIENCE)

    def finish(self) -> int:
        assert self._process is not None
        return self._process.wait(timeout=PATIENCE)

    def end(self) -> None:
        """End what a failed test left."""
        if self._process is not None and self._process.poll() is None:
            self.kill()
        stop = [self._python, "-m", "rollgym", "ctl", str(self.output), "stop", "--now"]
        subprocess.run(stop, cwd=ROOT, env=self._environment, check=False, timeout=PATIENCE)

    @property
    def metrics(self) -> list[dict[str, Any]]:
        path = self.output / "metrics.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    @property
    def log(self) -> str:
        path = self.output / "pool.log"
        return path.read_text()[-3000:] if path.exists() else "there is no log of the pool"

    def trained(self, step: int) -> set[tuple[int, int]]:
        """The rollouts that a step was made of."""
        lines = (self.output / "steps" / f"{step:05}.jsonl").read_text().splitlines()
        rows = [json.loads(line) for line in lines]
        return {(row["_ng_task_index"], row["_ng_rollout_index"]) for row in rows}


@pytest.fixture
def training(python: str, tmp_path: Path) -> Iterator[Training]:
    made = Training(python, tmp_path)
    yield made
    made.end()


def test_a_killed_trainer_goes_on_and_trains_on_every_group_once(training: Training) -> None:
    options = "--groups 2 --group-size 4 --held-out 2 --max-tokens 12"
    training.start(f"{options} --steps 10000")
    training.wait_for_steps(2)
    training.kill()
    made = len(training.metrics)
    last = made + 1
    training.start(f"{options} --steps {last}")
    assert training.finish() == 0, training.log
    metrics = training.metrics
    assert [line["step"] for line in metrics[-1:]] == [last]
    assert {line["step"] for line in metrics} == set(range(1, last + 1))
    versions = [line["version"] for line in metrics]
    assert versions == sorted(set(versions))
    assert len(metrics) > made
    for line in metrics:
        assert line["rollouts"] == 8
        assert line["gradient"] > 0
        assert line["staleness"] <= 2 + 1  # after a restart, one version has no weights
        assert line["ratio"] == pytest.approx(1, abs=0.3)
    steps = [training.trained(step) for step in range(1, last + 1)]
    assert sum(map(len, steps)) == len(set().union(*steps)) == 8 * last
    for name in ("before", "after"):
        assert 0 <= json.loads((training.output / f"{name}.json").read_text())["success"] <= 1


def test_the_policy_gets_better_at_what_is_rewarded(training: Training) -> None:
    training.start(
        "--steps 40 --groups 8 --group-size 8 --held-out 16 --max-tokens 16 --checkpoint-every 20"
    )
    assert training.finish() == 0, training.log
    rewards = [line["reward"] for line in training.metrics]
    assert fmean(rewards[-5:]) > 1.4 * fmean(rewards[:5])
    before, after = (
        json.loads((training.output / f"{name}.json").read_text())["success"]
        for name in ("before", "after")
    )
    assert after > before
