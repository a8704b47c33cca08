"""The tutorial on collecting rollouts, step by step, as a newcomer would type it.

Every block is run by bash as it is printed, with the agent's name where the tutorial leaves that
open. Only the port of the head is another than in the tutorial, because tests run side by side:
`env.yaml` says which, and one test does without.
"""

import fcntl
import json
import os
import re
import shutil
import socket
import tempfile
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from tests.counterparts.processes import ROOT, running_module
from tests.e2e.command import PATIENCE, Ended
from tests.e2e.tutorial_model import Notes, notes_of
from tests.e2e.tutorial_terminal import Running, Terminal, one_line
from tests.ports import free_port

AGENT = "example_multi_step_simple_agent"
DATASET = "resources_servers/example_multi_step/data/example.jsonl"
ROLLOUTS = "results/example_multi_step_rollouts.jsonl"
PLUGINS = ("resources_servers", "responses_api_agents", "responses_api_models")
USUAL_PORT = 11_000
READY = "Ctrl-C stops them"

ENVIRONMENT = """
policy_base_url: {url}/v1
policy_api_key: no-secret
policy_model_name: tutorial-model
"""

STEP_1 = r"""
# Start the example_multi_step agent server
config_paths="responses_api_models/openai_model/configs/openai_model.yaml,\
resources_servers/example_multi_step/configs/example_multi_step.yaml"
ng_run "+config_paths=[${config_paths}]"
"""

STEP_3 = r"""
# Generate rollouts from the dataset
ng_collect_rollouts +agent_name=example_multi_step_simple_agent \
    +input_jsonl_fpath=resources_servers/example_multi_step/data/example.jsonl \
    +output_jsonl_fpath=results/example_multi_step_rollouts.jsonl \
    +limit=5 \
    +num_repeats=2 \
    +num_samples_in_parallel=3 \
    +responses_create_params.max_output_tokens=8192
"""

STEP_4 = """
# Launch the rollout viewer
ng_viewer +jsonl_fpath=results/example_multi_step_rollouts.jsonl
"""

ESSENTIAL_PARAMETERS = r"""
ng_collect_rollouts \
    +agent_name=your_agent_name \              # Which agent to use
    +input_jsonl_fpath=input/tasks.jsonl \     # Input dataset
    +output_jsonl_fpath=output/rollouts.jsonl  # Where to save results
"""

DATA_CONTROL_PARAMETERS = r"""
+limit=100 \                    # Limit examples processed (null = all)
+num_repeats=3 \                # Rollouts per example (null = 1)  
+num_samples_in_parallel=5      # Concurrent requests (null = default)
"""  # noqa: W291 - as it is printed

MODEL_BEHAVIOR_PARAMETERS = r"""
+responses_create_params.max_output_tokens=4096 \     # Response length limit
+responses_create_params.temperature=0.7 \            # Randomness (0-1)
+responses_create_params.top_p=0.9                    # Nucleus sampling
"""

CONSISTENT_BEHAVIOR = r"""
# Generate single, consistent rollouts for analysis
ng_collect_rollouts +agent_name=your_agent \
    +input_jsonl_fpath=analysis_tasks.jsonl \
    +output_jsonl_fpath=consistent_rollouts.jsonl \
    +num_repeats=1 \
    +responses_create_params.temperature=0.1    # Low temperature for consistency
"""

BEHAVIORAL_DIVERSITY = r"""
# Generate multiple responses to explore agent capabilities
ng_collect_rollouts +agent_name=your_agent \
    +input_jsonl_fpath=evaluation_tasks.jsonl \
    +output_jsonl_fpath=diverse_rollouts.jsonl \
    +num_repeats=4 \                            # Multiple attempts per task
    +responses_create_params.temperature=0.8    # Higher temperature for diversity
"""

PERFORMANCE_EVALUATION = r"""
# Comprehensive evaluation across full dataset  
ng_collect_rollouts +agent_name=your_agent \
    +input_jsonl_fpath=benchmark_full.jsonl \
    +output_jsonl_fpath=evaluation_rollouts.jsonl \
    +limit=null \                               # Process entire dataset
    +num_repeats=1 \
    +num_samples_in_parallel=10                 # Faster processing
"""  # noqa: W291 - as it is printed

ANALYSIS = """
# Filter by success rate
jq 'select(.success == true)' results/your_rollouts.jsonl > successful_rollouts.jsonl

# Analyze reward distribution
jq '.reward' results/your_rollouts.jsonl | sort -n | uniq -c

# Count tool usage patterns
jq '.output[] | select(.tool_calls) | .tool_calls[].function.name' rollouts.jsonl | sort | uniq -c
"""

ON_ITS_OWN = r"""
config_paths="responses_api_models/openai_model/configs/openai_model.yaml,\
resources_servers/example_multi_step/configs/example_multi_step.yaml"
ng_collect_rollouts "+config_paths=[${config_paths}]" \
    +agent_name=example_multi_step_simple_agent \
    +input_jsonl_fpath=resources_servers/example_multi_step/data/example.jsonl \
    +output_jsonl_fpath=results/own.jsonl
"""

VERSIONED_OUTPUT = "+output_jsonl_fpath=data/rollouts_v2.0_$(date +%Y%m%d).jsonl"

Rows = list[dict[str, Any]]


def rows_of(path: Path) -> Rows:
    return [json.loads(line) for line in path.read_text().splitlines()]


def clone_at(folder: Path, model: str, head: int | None = None) -> Path:
    """What the tutorial uses of a clone, with the settings that a newcomer adds."""
    folder.mkdir(exist_ok=True)
    for kind in PLUGINS:
        (folder / kind).symlink_to(ROOT / kind)
    head_server = f"head_server: {{port: {head}}}\n" if head else ""
    (folder / "env.yaml").write_text(ENVIRONMENT.format(url=model) + head_server)
    return folder


@pytest.fixture(scope="module")
def model() -> Iterator[str]:
    """Where a model is served."""
    with running_module("tests.e2e.tutorial_model") as url:
        yield url


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def head() -> int:
    return free_port()


@pytest.fixture(scope="module")
def terminal(
    model: str, head: int, home: Path, tmp_path_factory: pytest.TempPathFactory
) -> Terminal:
    """In a clone."""
    return Terminal(clone_at(tmp_path_factory.mktemp("clone"), model, head), home)


@pytest.fixture(scope="module")
def servers(terminal: Terminal) -> Iterator[Running]:
    """Step 1, for as long as this module runs; Ctrl-C ends it."""
    running = terminal.keep(STEP_1, terminal.folder / "ng_run.txt")
    try:
        running.wait_for(READY)
        yield running
        assert running.press_ctrl_c() == 0
    finally:
        running.kill()


@pytest.fixture(scope="module")
def asked(model: str, servers: Running) -> Callable[[], Notes]:
    """What the model was asked since it was looked at last."""
    assert servers.process.poll() is None
    return lambda: notes_of(model)


class Collection:
    """What a command that collects did, and what its model saw of it."""

    def __init__(self, ended: Ended, output: Path, notes: Notes) -> None:
        self.ended = ended
        self.rows = rows_of(output) if output.exists() else []
        self.notes = notes


@pytest.fixture(scope="module")
def collect(terminal: Terminal, asked: Callable[[], Notes]) -> Callable[[str, str], Collection]:
    """Type a command into a second terminal, and look at the file that it should write."""

    def typed(command: str, output: str) -> Collection:
        asked()
        ended = terminal.run(command)
        assert ended.status == 0, ended.stdout + ended.stderr
        return Collection(ended, terminal.folder / output, asked())

    return typed


Collect = Callable[[str, str], Collection]


@pytest.fixture(scope="module")
def first(collect: Collect) -> Collection:
    """Step 3."""
    return collect(STEP_3, ROLLOUTS)


# Hands-on.


def test_step_1_shows_three_servers_that_run(servers: Running) -> None:
    shown = servers.wait_for(READY).splitlines()
    assert [line.split()[0] for line in shown[:4]] == [
        "server",
        "policy_model",
        "example_multi_step_resources_server",
        AGENT,
    ]
    assert shown[4].startswith("All 3 servers are ready: ")
    assert AGENT in shown[4]


def test_ng_status_shows_the_same_servers_anywhere(
    terminal: Terminal, servers: Running, head: int, home: Path, tmp_path: Path
) -> None:
    here = terminal.run("ng_status")
    elsewhere = Terminal(tmp_path, home).run(f"ng_status +head_server.port={head}")
    for status in (here, elsewhere):
        assert status.status == 0, status.stderr
        assert [line.split()[-1] for line in status.lines] == ["health", "ok", "ok", "ok"]
    assert servers.process.poll() is None


def test_a_terminal_of_the_usual_width_shows_names_and_urls_in_one_piece(
    terminal: Terminal, servers: Running
) -> None:
    status, drawn = terminal.watch("ng_status")
    assert status == 0, drawn
    assert all(len(line) <= 80 for line in drawn.splitlines())
    for line in servers.wait_for(READY).splitlines()[1:4]:
        name, _, _, url, _ = line.split()
        assert f"{name} " in drawn
        assert f"{url} " in drawn


def test_step_3_makes_two_rollouts_of_each_of_five_tasks(first: Collection) -> None:
    indexes = sorted((row["_ng_task_index"], row["_ng_rollout_index"]) for row in first.rows)
    assert indexes == [(task, repeat) for task in range(5) for repeat in range(2)]
    assert first.ended.coverage == (
        "10 expected = 10 completed + 0 failed + 0 omitted + 0 unresolved"
    )


def test_the_model_gets_every_parameter_and_at_most_three_conversations_at_once(
    first: Collection,
) -> None:
    assert first.notes.conversations == 10
    assert 1 < first.notes.at_once <= 3
    assert first.notes.values("max_output_tokens") == {8192}
    assert first.notes.values("model") == {"tutorial-model"}


def test_the_same_command_again_has_nothing_to_do(first: Collection, collect: Collect) -> None:
    again = collect(STEP_3, ROLLOUTS)
    assert "all rollouts were collected before" in again.ended.text
    assert again.notes.requests == []
    assert again.rows == first.rows
    assert again.ended.headline == first.ended.headline


def test_step_4_shows_the_rollouts_until_ctrl_c(terminal: Terminal, first: Collection) -> None:
    viewer = terminal.keep(STEP_4, terminal.folder / "ng_viewer.txt")
    try:
        said = viewer.wait_for("until Ctrl-C")
        found = re.search(r"http://\S+", said)
        assert found, said
        with urllib.request.urlopen(found[0], timeout=PATIENCE) as answer:
            assert answer.status == 200
            assert answer.read().startswith(b"<!doctype html>")
        source = ROLLOUTS.rpartition("/")[2].removesuffix(".jsonl")
        listed = f"{found[0]}api/s/{source}/rollouts"
        with urllib.request.urlopen(listed, timeout=PATIENCE) as answer:
            entries = json.load(answer)["entries"]
        assert viewer.press_ctrl_c() == 0
    finally:
        viewer.kill()
    assert all(
        entry["title"].startswith("Find the hidden information in this document")
        for entry in entries
    )
    assert [entry["reward"] for entry in entries] == [row["reward"] for row in first.rows]
    assert viewer.said.read_text() == said


# Understanding rollout data structure.


def test_a_rollout_holds_the_task_and_its_tools(first: Collection) -> None:
    for row in first.rows:
        params = row["responses_create_params"]
        assert [item["role"] for item in params["input"]] == ["user"]
        assert params["input"][0]["content"].startswith("Find the hidden information")
        assert params["tools"][0]["type"] == "function"
        assert params["tools"][0]["name"] == "search_document"


def test_a_rollout_holds_the_conversation_with_its_tool_calls(first: Collection) -> None:
    called = [row for row in first.rows if row["metadata"]["tool_calls_made"]]
    assert called
    for row in called:
        output = row["output"]
        assert {entry["role"] for entry in output} == {"assistant", "tool"}
        calls = [call for entry in output for call in entry.get("tool_calls", [])]
        for call in calls:
            assert call["function"]["name"] in {"search_document", "read_passage"}
            assert isinstance(call["function"]["arguments"], str)
        answers = [entry for entry in output if entry["role"] == "tool"]
        assert all(isinstance(entry["content"], str) for entry in answers)
        assert len(answers) == len(calls) == row["metadata"]["tool_calls_made"]
    assert any(
        entry["content"].startswith("Found at ")
        for row in called
        for entry in row["output"]
        if entry["role"] == "tool"
    )


def test_a_rollout_ends_with_its_answer_and_its_scores(first: Collection) -> None:
    for row in first.rows:
        last = row["output"][-1]
        assert last["role"] == "assistant"
        assert isinstance(last["content"], str)
        assert isinstance(row["reward"], float)
        assert isinstance(row["success"], bool)
        assert row["success"] == (row["reward"] == 1.0)
        metadata = row["metadata"]
        turns = sum(entry["role"] == "assistant" for entry in row["output"])
        assert metadata["reasoning_steps"] == turns
        assert metadata["verification_score"] == row["reward"]
    assert {row["success"] for row in first.rows} == {True, False}


# Rollout generation parameters, and strategies.


@pytest.fixture(scope="module")
def datasets(terminal: Terminal) -> None:
    """What the tutorial supposes its reader to have."""
    (terminal.folder / "input").mkdir()
    for name in ("input/tasks", "analysis_tasks", "evaluation_tasks", "benchmark_full"):
        shutil.copy(terminal.folder / DATASET, terminal.folder / f"{name}.jsonl")


@pytest.mark.usefixtures("datasets")
def test_data_control_and_model_behavior_parameters_reach_where_they_should(
    collect: Collect,
) -> None:
    blocks = (ESSENTIAL_PARAMETERS, DATA_CONTROL_PARAMETERS, MODEL_BEHAVIOR_PARAMETERS)
    command = " ".join(map(one_line, blocks)).replace("your_agent_name", AGENT)
    command = command.replace("output/rollouts", "output/controlled")
    collection = collect(command, "output/controlled.jsonl")
    assert len(collection.rows) == collection.notes.conversations == 15
    assert collection.notes.at_once <= 5
    assert collection.notes.values("max_output_tokens") == {4096}
    assert collection.notes.values("temperature") == {0.7}
    assert collection.notes.values("top_p") == {0.9}


@pytest.mark.usefixtures("datasets")
def test_every_strategy_runs_as_it_is_printed(collect: Collect) -> None:
    cases: Iterable[tuple[str, str, int, float | None]] = [
        (CONSISTENT_BEHAVIOR, "consistent_rollouts.jsonl", 5, 0.1),
        (BEHAVIORAL_DIVERSITY, "diverse_rollouts.jsonl", 20, 0.8),
        (PERFORMANCE_EVALUATION, "evaluation_rollouts.jsonl", 5, None),
    ]
    for block, output, rollouts, temperature in cases:
        collection = collect(one_line(block).replace("your_agent", AGENT), output)
        assert len(collection.rows) == collection.notes.conversations == rollouts
        assert collection.notes.values("temperature") == {temperature}


# Monitoring generation progress.


def test_the_numbers_at_the_end_are_those_of_the_file(first: Collection) -> None:
    numbers, rows = first.ended.headline, first.rows
    assert list(numbers)[:4] == [
        "avg_reward",
        "success_rate",
        "avg_tool_calls",
        "avg_response_length",
    ]
    lengths = [row["response"]["usage"]["output_tokens"] for row in rows]
    assert numbers["avg_reward"] == pytest.approx(fmean(row["reward"] for row in rows))
    assert numbers["success_rate"] == pytest.approx(fmean(row["success"] for row in rows))
    calls = [row["metadata"]["tool_calls_made"] for row in rows]
    assert numbers["avg_tool_calls"] == pytest.approx(fmean(calls))
    assert numbers["avg_response_length"] == pytest.approx(fmean(lengths))


def test_a_log_gets_lines_that_read_well(first: Collection) -> None:
    lines = [line for line in first.ended.stderr.splitlines() if line.startswith("Collecting")]
    assert lines[0] == "Collecting rollouts: 10 expected"
    assert re.match(
        r"Collecting rollouts: 100% 10/10 \[\d\d:\d\d<00:00, \d+\.\d\dit/(s|min)\] avg_reward 0\.",
        lines[-1],
    )
    assert first.ended.stderr.replace("\n", "").isprintable()


def test_a_terminal_shows_a_bar_and_then_the_numbers(terminal: Terminal, servers: Running) -> None:
    assert servers.process.poll() is None
    status, drawn = terminal.watch(STEP_3.replace(ROLLOUTS, "results/watched.jsonl"))
    assert status == 0, drawn
    bars = re.findall(
        r"Collecting rollouts: +(\d+)%\|(█*)[^|]*\| (\d+)/10 \[\d\d:\d\d<.*?it/(?:s|min)\]", drawn
    )
    assert bars, drawn
    percent, bar, settled = bars[-1]
    assert (percent, settled) == ("100", "10")
    assert len(bar) >= 6
    assert Ended(status, drawn.replace("\r", ""), "").headline["avg_reward"] > 0


# Analyzing generated data.


@pytest.mark.skipif(shutil.which("jq") is None, reason="jq is not installed")
def test_every_line_of_jq_finds_what_it_looks_for(terminal: Terminal, first: Collection) -> None:
    typed = ANALYSIS.replace("results/your_rollouts.jsonl", ROLLOUTS)
    done = terminal.run(typed.replace(" rollouts.jsonl", f" {ROLLOUTS}"))
    assert (done.status, done.stderr) == (0, "")
    counted = [line.split() for line in done.lines]
    rewards = {float(value): int(count) for count, value in counted if '"' not in value}
    assert sum(rewards.values()) == len(first.rows)
    assert set(rewards) == {row["reward"] for row in first.rows}
    tools = {name.strip('"'): int(count) for count, name in counted if '"' in name}
    assert sum(tools.values()) == sum(row["metadata"]["tool_calls_made"] for row in first.rows)
    assert "search_document" in tools
    kept = terminal.run("jq -c . successful_rollouts.jsonl").lines
    assert len(kept) == sum(row["success"] for row in first.rows) > 0


# Best practices.


def test_output_named_by_version_and_day(terminal: Terminal, collect: Collect) -> None:
    day = terminal.run("date +%Y%m%d").stdout.strip()
    typed = (
        f"ng_collect_rollouts +agent_name={AGENT} +input_jsonl_fpath={DATASET} {VERSIONED_OUTPUT} "
        "+limit=null +num_repeats=3 +num_samples_in_parallel=20 +resume=false"
    )
    assert len(collect(typed, f"data/rollouts_v2.0_{day}.jsonl").rows) == 15


# Around the tutorial.


@pytest.fixture
def port_option() -> Iterator[str]:
    """Nothing, so that the usual port is used; another one where somebody has that.

    Another run of these tests has to wait, or it would find the port free and then taken.
    """
    with (Path(tempfile.gettempdir()) / f"rollgym-tests-{os.getuid()}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield "" if _is_free(USUAL_PORT) else f" +head_server.port={free_port()}"


def test_the_usual_port_is_found_without_saying_so_and_is_only_given_once(
    model: str, port_option: str, home: Path, tmp_path: Path
) -> None:
    clone = Terminal(clone_at(tmp_path / "clone", model), home)
    first = clone.keep(STEP_1.rstrip() + port_option, tmp_path / "first.txt")
    try:
        first.wait_for(READY)
        status = clone.run(f"ng_status{port_option}")
        assert status.status == 0, status.stderr
        assert AGENT in status.stdout
        second = clone.run(STEP_1.rstrip() + port_option)
        assert (second.status, second.stdout) == (6, "")
        assert "another ng_run is probably running" in second.stderr
        assert "stop it or pass +head_server.port=" in second.stderr
        limited = f"{STEP_3.rstrip()} +limit=1 +num_repeats=1{port_option}"
        assert clone.run(limited).status == 0
        assert first.press_ctrl_c() == 0
    finally:
        first.kill()
    assert first.said.read_text().endswith("All servers are stopped\n")
    assert clone.run(f"ng_status{port_option}").status == 1


def test_an_empty_folder_is_enough_where_only_the_files_of_rollgym_are_named(
    head: int, model: str, servers: Running, home: Path, tmp_path: Path
) -> None:
    assert servers.process.poll() is None
    elsewhere = Terminal(tmp_path, home)
    done = elsewhere.run(f"{STEP_3.rstrip()} +head_server.port={head}")
    assert done.status == 0, done.stderr
    assert len(rows_of(tmp_path / ROLLOUTS)) == 10
    assert [path.name for path in tmp_path.iterdir()] == ["results"]
    (tmp_path / "env.yaml").write_text(ENVIRONMENT.format(url=model))
    own = elsewhere.run(ON_ITS_OWN)
    assert own.status == 0, own.stderr
    assert len(rows_of(tmp_path / "results/own.jsonl")) == 5


MISTAKES = {
    "ng_collect_rollouts": ["+input_jsonl_fpath is missing", "+output_jsonl_fpath is missing"],
    f"{STEP_3.rstrip()} +agent_name=example_multistep_simple_agent": [
        f"+agent_name: there is no agent 'example_multistep_simple_agent'; did you mean {AGENT}?"
    ],
    f"{STEP_3.rstrip()} --limt=1": ["--limt: there is no such option; did you mean --limit?"],
    "ng_run --policy-api-key=no-secret": ["options are written without dashes"],
    "ng_viewer": ["`jsonl_fpath` is missing", "+jsonl_fpath="],
}


def test_a_mistake_is_told_once_with_what_to_type(terminal: Terminal, servers: Running) -> None:
    assert servers.process.poll() is None
    for typed, messages in MISTAKES.items():
        refused = terminal.run(typed)
        assert (refused.status, refused.stdout) == (2, "")
        assert [refused.stderr.count(message) for message in messages] == [1] * len(messages)
        assert "no-secret" not in refused.stderr


def test_help_is_there_by_any_name(terminal: Terminal) -> None:
    collect = terminal.run("ng_collect_rollouts --help").stdout
    assert terminal.run("rollgym collect help").stdout == collect
    assert collect.index("+agent_name=… (default: null)") < collect.index("+limit=…")


@pytest.mark.usefixtures("first")
def test_nothing_is_left_in_the_home_folder(home: Path) -> None:
    assert list(home.iterdir()) == []


def _is_free(port: int) -> bool:
    with socket.socket() as knocking:
        return knocking.connect_ex(("127.0.0.1", port)) != 0
