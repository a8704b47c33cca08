"""What the demo leaves: real output of its commands, for the viewer to show.

The commands are those of `scripts/demo.sh`, each in a process of its own and all at the same time:
a tool agent, and web tasks in a real browser. The agent's tasks are collected once more with a
better model, so that there are two runs of the same tasks to compare. `puzzle_run.py` makes a run
with simulated failures.
"""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.builders import read_json_lines
from tests.e2e.command import Ended, finish
from tests.e2e.rolling import Iteration, Record
from webgym.browser.chromium.executable import NoBrowserError, find_browser

REPOSITORY = Path(__file__).parents[3]
SCRIPT = REPOSITORY / "scripts" / "demo.sh"
COMMANDS = Path(sys.executable).parent
PUZZLES = Path(__file__).with_name("puzzle_run.py")
CONFIGURATIONS = (
    "responses_api_models/scripted_model/configs/scripted_model.yaml",
    "resources_servers/example_multi_step/configs/example_multi_step.yaml",
)
AGENT = (
    "ng_collect_rollouts",
    f"+config_paths=[{','.join(CONFIGURATIONS)}]",
    "+agent_name=example_multi_step_simple_agent",
    "+input_jsonl_fpath=resources_servers/example_multi_step/data/example.jsonl",
    "+limit=5",
    "+num_repeats=2",
    "+num_samples_in_parallel=3",
    "+responses_create_params.max_output_tokens=8192",
)
AGENT_OUTPUT = "+output_jsonl_fpath=results/demo_multi_step_rollouts.jsonl"
WEB = ("rollout.py", "--config-name", "demo")
SKILL = "+policy_model.responses_api_models.scripted_model.skill"
BETTER = ("+output_jsonl_fpath=results/better_model.jsonl", f"{SKILL}=1.0")


class Demo(NamedTuple):
    """The folder of the results, and what each command printed."""

    results: Path
    puzzles: Ended
    agent: Ended
    better: Ended
    web: Ended

    @property
    def agent_rows(self) -> list[Record]:
        """The lines of the tool agent's rollouts."""
        return read_json_lines(self.results / "demo_multi_step_rollouts.jsonl")

    @property
    def agent_metrics(self) -> Mapping[str, float]:
        (agent,) = json.loads(
            (self.results / "demo_multi_step_rollouts_aggregate_metrics.json").read_bytes()
        )
        metrics: Mapping[str, float] = agent["agent_metrics"]
        return metrics

    @property
    def iteration(self) -> Iteration:
        """The web rollouts."""
        return Iteration(self.results / "demo_web")

    @property
    def web_records(self) -> list[Record]:
        return read_json_lines(self.iteration.paths.run / "journal.jsonl")


def play_demo(folder: Path) -> Demo:
    """Run the demo's commands in a folder, to their ends; skips where there is no browser."""
    try:
        find_browser()
    except NoBrowserError as error:
        pytest.skip(str(error))
    agent, *arguments = AGENT
    script, *options = WEB
    commands: tuple[tuple[str | Path, ...], ...] = (
        (sys.executable, PUZZLES),
        (COMMANDS / agent, *arguments, AGENT_OUTPUT),
        (COMMANDS / agent, *arguments, *BETTER),
        (sys.executable, SCRIPT.parent / script, *options),
    )
    with ExitStack() as stack:
        running = [start(folder, *command) for command in commands]
        for process in running:
            stack.callback(process.kill)
        ends = [finish(process) for process in running]
    for ended in ends:
        assert ended.status == 0, ended.stdout + ended.stderr
    return Demo(folder / "results", *ends)


def start(folder: Path, *command: str | Path) -> "subprocess.Popen[str]":
    """A command as a user types it in a folder."""
    return subprocess.Popen(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def steps_of(record: Record) -> list[dict[str, Any]]:
    """Of a line of a journal of web rollouts."""
    steps: list[dict[str, Any]] = record["outcome"]["result"]["steps"]
    return steps


def aimed(records: list[Record], key: str) -> Iterator[tuple[int, int]]:
    """The lines and the steps at which an action with this key has a place, both from 0."""
    for line, record in enumerate(records):
        for number, step in enumerate(steps_of(record)):
            if step["action"]["key"] == key and step["action"].get("pixel"):
                yield line, number
