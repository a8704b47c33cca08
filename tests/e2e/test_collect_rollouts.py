"""`ng_collect_rollouts` as a user meets it: real processes, kills, damaged files, and jq."""

import json
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.builders import read_json_lines
from tests.e2e.command import (
    Ended,
    finish,
    records,
    rollgym,
    start,
    wait_for_records,
    wait_until,
)
from tests.ports import free_port

REPOSITORY = Path(__file__).parents[2]
CONFIG = (
    "+config_paths=[responses_api_models/scripted_model/configs/scripted_model.yaml,"
    "resources_servers/example_multi_step/configs/example_multi_step.yaml]"
)
EXAMPLE = REPOSITORY / "resources_servers/example_multi_step/data/example.jsonl"
SLOW = "+policy_model.responses_api_models.scripted_model.latency=0.05"
COLLECT = (
    "collect",
    CONFIG,
    "+agent_name=example_multi_step_simple_agent",
    f"+input_jsonl_fpath={EXAMPLE}",
    "+output_jsonl_fpath=results/rollouts.jsonl",
)
KEYS = [(task, repeat) for task in range(5) for repeat in range(4)]
MANY = (*COLLECT, "+num_repeats=4", "+num_samples_in_parallel=2", SLOW)
Json = dict[str, Any]


class Results:
    """The files that a collection leaves."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "results"
        self.output = self.folder / "rollouts.jsonl"
        self.failures = self.folder / "rollouts_failures.jsonl"
        self.inputs = self.folder / "rollouts_materialized_inputs.jsonl"
        self.metrics = self.folder / "rollouts_aggregate_metrics.json"
        self.run = self.folder / "rollouts.run"

    def keys(self) -> list[tuple[int, int]]:
        rows = read_json_lines(self.output)
        return sorted((row["_ng_task_index"], row["_ng_rollout_index"]) for row in rows)

    def tasks(self) -> list[int]:
        return [row["_ng_task_index"] for row in read_json_lines(self.inputs)]


@pytest.fixture
def results(tmp_path: Path) -> Results:
    return Results(tmp_path)


def jq(expression: str, path: Path) -> list[Any]:
    program = shutil.which("jq")
    if program is None:
        pytest.skip("jq is not installed")
    done = subprocess.run(
        [program, "-c", expression, path], capture_output=True, text=True, check=True, timeout=60
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_the_command_of_the_tutorial_leaves_files_that_the_tutorials_jq_lines_read(
    tmp_path: Path, results: Results
) -> None:
    command = Path(sys.executable).with_name("ng_collect_rollouts")
    done = subprocess.run(
        [
            command,
            *COLLECT[1:],
            "+limit=5",
            "+num_repeats=2",
            "+num_samples_in_parallel=3",
            "+responses_create_params.max_output_tokens=8192",
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    ended = Ended(done.returncode, done.stdout, done.stderr)
    assert ended.status == 0, ended.stderr
    assert ended.headline.keys() >= {
        "avg_reward",
        "success_rate",
        "avg_tool_calls",
        "avg_response_length",
    }
    last_bar = [line for line in ended.stderr.splitlines() if line.startswith("Collecting")][-1]
    assert last_bar.startswith("Collecting rollouts: 100% 10/10 [")
    assert "avg_reward" in last_bar
    assert "\r" not in done.stderr
    assert "\x1b" not in done.stderr
    assert ended.coverage == "10 expected = 10 completed + 0 failed + 0 omitted + 0 unresolved"

    rows = read_json_lines(results.output)
    keys = [(task, repeat) for task in range(5) for repeat in range(2)]
    assert results.keys() == keys
    assert results.tasks() == sorted({task for task, _ in keys})
    assert all(row["responses_create_params"]["max_output_tokens"] == 8192 for row in rows)
    successes = [row for row in rows if row["success"]]
    assert 0 < len(successes) < len(rows)
    assert jq("select(.success == true)", results.output) == successes
    assert Counter(jq(".reward", results.output)) == Counter(row["reward"] for row in rows)
    named = jq(".output[] | select(.tool_calls) | .tool_calls[].function.name", results.output)
    assert set(named) == {"search_document"}
    assert len(named) == sum(row["metadata"]["tool_calls_made"] for row in rows)
    average = sum(row["reward"] for row in rows) / len(rows)
    assert ended.headline["avg_reward"] == pytest.approx(average, abs=1e-4)


# Killed, and continued.


def torn(results: Results) -> None:
    for path in (results.output, results.failures, results.run / "journal.jsonl"):
        with path.open("ab") as file:
            file.write(b'{"_ng_task_index":4,"_ng_roll')


def gone(results: Results) -> None:
    for path in (results.output, results.failures, results.inputs):
        path.unlink()


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a collection that was killed in the middle."""
    folder = tmp_path_factory.mktemp("killed")
    results = Results(folder)
    process = start(folder, *MANY)
    wait_for_records(results.run, 5)
    wait_until(lambda: results.output.stat().st_size > 0)
    process.kill()
    assert finish(process).status == -signal.SIGKILL
    assert len(records(results.run)) < len(KEYS)
    return folder


@pytest.mark.parametrize("damage", [torn, gone])
def test_after_a_kill_and_damaged_files_nothing_is_lost_or_duplicated(
    tmp_path: Path, results: Results, killed: Path, damage: Callable[[Results], None]
) -> None:
    sockets = shutil.ignore_patterns("*.sock")  # which copytree cannot copy
    shutil.copytree(killed, tmp_path, dirs_exist_ok=True, ignore=sockets)
    kept = {(row["task"], row["repeat"]): row for row in records(results.run)}
    damage(results)
    ended = rollgym(tmp_path, *MANY)
    assert ended.status == 0, ended.stderr
    assert ended.coverage.startswith("20 expected = 20 completed + 0 failed")
    assert results.keys() == KEYS
    assert results.tasks() == sorted({task for task, _ in KEYS})
    assert results.failures.read_bytes() == b""
    now = records(results.run)
    assert sorted((row["task"], row["repeat"]) for row in now) == KEYS
    assert all(kept.get((row["task"], row["repeat"]), row) == row for row in now)
    (metrics,) = json.loads(results.metrics.read_text())
    rewards = [row["reward"] for row in read_json_lines(results.output)]
    assert metrics["agent_metrics"]["mean/reward"] == pytest.approx(sum(rewards) / 20)


def test_two_collections_into_one_file_are_rejected(tmp_path: Path, results: Results) -> None:
    endless = (*COLLECT, "+policy_model.responses_api_models.scripted_model.latency=600")
    first = start(tmp_path, *endless)
    wait_until((results.run / "manifest.json").exists)
    try:
        for further in (("+resume=false",), ("+shard=0/2",)):
            second = rollgym(tmp_path, *endless, *further)
            assert second.status == 6
            assert f"is being collected as a whole by process {first.pid} on " in second.stderr
    finally:
        first.kill()
        finish(first)
    assert [path.name for path in results.folder.glob("*previous*")] == []


# Without servers.


def test_without_servers_the_message_says_how_to_start_them(tmp_path: Path) -> None:
    ended = rollgym(tmp_path, COLLECT[0], *COLLECT[2:], f"+head_server.port={free_port()}")
    assert ended.status == 6
    assert "ng_run" in ended.stderr
    assert "With config files (config_paths) this command runs the servers itself." in ended.stderr
    assert "Traceback" not in ended.stderr
    assert not (tmp_path / "results").exists()
