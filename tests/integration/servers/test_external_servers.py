"""Servers that somebody else runs take part by their URL alone, in both directions."""

import json
import threading
from pathlib import Path

import pytest

from rollgym.cli import collect
from rollgym.servers.config.loading import load_config
from rollgym.servers.config.problems import ConfigError
from tests.cases import for_each
from tests.counterparts.processes import running
from tests.integration.servers.wire_contract import Json, row_with
from tests.ports import free_port

OUR_AGENT = """
agent:
  responses_api_agents:
    simple_agent:
      entrypoint: app.py
      resources_server: {type: resources_servers, name: environment}
      model_server: {type: responses_api_models, name: policy_model}
"""


def external(name: str, kind: str, url: object) -> str:
    return f"{name}: {{{kind}: {{somebody_elses: {{url: {json.dumps(url)}}}}}}}\n"


def collected(folder: Path, config: str, rows: list[Json], *options: str) -> list[Json]:
    (folder / "config.yaml").write_text(config)
    (folder / "tasks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    status = collect.run(
        [
            f"+config_paths=[{folder / 'config.yaml'}]",
            "+agent_name=agent",
            f"+input_jsonl_fpath={folder / 'tasks.jsonl'}",
            f"+output_jsonl_fpath={folder / 'rollouts.jsonl'}",
            "+num_samples_in_parallel=2",
            *options,
        ]
    )
    assert status == 0
    return [json.loads(line) for line in (folder / "rollouts.jsonl").read_text().splitlines()]


def task(number: int) -> Json:
    script = ('call get_secret {"key": "door"}', f"say done {number} {{outputs}}")
    fields = {"secrets": {"door": "swordfish"}, "expected": f"done {number}", "number": number}
    return row_with(["get_secret"], script, **fields)


def test_our_agent_works_in_an_environment_of_somebody_elses(tmp_path: Path) -> None:
    with running("resources_server", "--silent") as environment, running("model") as model:
        config = (
            OUR_AGENT
            + external("environment", "resources_servers", environment)
            + external("policy_model", "responses_api_models", model)
        )
        rows = collected(tmp_path, config, [task(1), task(2)])
    assert sorted(row["number"] for row in rows) == [1, 2]
    for row in rows:
        assert row["reward"] == 1.0
        assert row["secrets"] == {"door": "swordfish"}  # kept, though the verifier is silent
        assert [message["role"] for message in row["output"]] == ["assistant", "tool", "assistant"]


def test_a_strict_environment_accepts_seeds_the_step_limit_and_what_we_note(tmp_path: Path) -> None:
    script = (
        'call add {"amount": "two"}\nalso proverb {}\nalso motto {}',
        'call add {"amount": 3}',
        'call add {"amount": 4}',
    )
    row = row_with(["add", "proverb", "motto"], script, expected="")
    with running("resources_server", "--strict") as environment, running("model") as model:
        config = (
            f"{OUR_AGENT}      max_steps: 2\n"
            + external("environment", "resources_servers", environment)
            + external("policy_model", "responses_api_models", model)
        )
        repeats = ("+num_repeats=2", "+num_repeats_add_seed=true")
        rows = collected(tmp_path, config, [row], *repeats)
    # The calls of the last turn reached their tools, so the verifier has seen all of them.
    assert [(row["reward"], row["total"]) for row in rows] == [(1.0, 3)] * 2
    for row in rows:
        assert (row["response"]["status"], row["metadata"]["stopped_by"]) == (
            "completed",
            "max_steps",
        )
        assert row["metadata"]["tool_calls_rejected"] == 1
        assert row["metadata"]["signs"] == ["step_limit", "tool_calls_rejected"]
        items = row["response"]["output"]
        said = [item["output"] for item in items if item["type"] == "function_call_output"]
        assert said[1:] == [
            r'"Haste makes waste,\n\"they\" say"',
            "Übung macht den Meister \N{EM DASH} 熟能生巧",
            '{"total": 3}',
        ]


def test_an_agent_of_somebody_elses_is_collected_from(tmp_path: Path) -> None:
    with (
        running("resources_server") as environment,
        running("model") as model,
        running("agent", "--resources-url", environment, "--model-url", model) as agent,
    ):
        rows = collected(
            tmp_path, external("agent", "responses_api_agents", agent), [task(1), task(2)]
        )
    assert [row["reward"] for row in rows] == [1.0, 1.0]
    metrics = json.loads((tmp_path / "rollouts_aggregate_metrics.json").read_text())
    assert metrics[0]["agent_metrics"]["counterpart/rows"] == 2


@for_each(
    "url", ["127.0.0.1:8000", "ftp://host", "http://", "http://host:0", "", 8000, [], ["http://"]]
)
def test_what_is_no_url_is_refused(tmp_path: Path, url: object) -> None:
    (tmp_path / "config.yaml").write_text(external("environment", "resources_servers", url))
    with pytest.raises(ConfigError, match=r"config.yaml:1: environment: `url` is .*127.0.0.1:8000"):
        load_config(["+config_paths=[config.yaml]"], tmp_path)


def test_a_server_is_elsewhere_or_here_but_not_both(tmp_path: Path) -> None:
    text = "a: {resources_servers: {b: {url: 'http://host', entrypoint: app.py}}}"
    (tmp_path / "config.yaml").write_text(text)
    with pytest.raises(ConfigError, match=r"has a `url` and an `entrypoint`"):
        load_config(["+config_paths=[config.yaml]"], tmp_path)


@pytest.mark.parametrize(
    ("option", "attempts"), [("+preflight=true", {1}), ("+preflight=false", {1, 2})]
)
def test_an_environment_that_is_away_is_waited_for(
    tmp_path: Path, option: str, attempts: set[int]
) -> None:
    """It comes back on its port only after the collection has found nobody there."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with running("model") as model:
        config = (
            OUR_AGENT
            + external("environment", "resources_servers", url)
            + external("policy_model", "responses_api_models", model)
        )
        late = threading.Timer(1.5, environment_at, (port, done := threading.Event()))
        late.start()
        try:
            rows = collected(tmp_path, config, [task(number) for number in range(8)], option)
        finally:
            done.set()
            late.join()
    assert [row["reward"] for row in rows] == [1.0] * 8
    assert {row["metadata"]["attempts"] for row in rows} == attempts


def environment_at(port: int, done: threading.Event) -> None:
    with running("resources_server", "--port", str(port)):
        done.wait(60)
