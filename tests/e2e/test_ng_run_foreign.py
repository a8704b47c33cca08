"""Agents and collectors of other projects on our `ng_run`, and their servers in it.

They are counterparts, written from what NeMo Gym was observed to do: its collector finds servers in
the `global_config_dict_yaml` of the head, and its agent keeps only the cookies of the last answer.
"""

import json
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from omegaconf import OmegaConf

from tests.cases import for_each
from tests.counterparts.processes import ROOT, running
from tests.counterparts.wire import Client, wait_until
from tests.e2e.serving import NG_RUN, ng_status
from tests.ports import free_port

Json = dict[str, Any]
STATEFUL = ("example_session_state_mgmt", "example_multi_step")


class Head(NamedTuple):
    """A running `ng_run`, as a foreign collector sees it."""

    folder: Path
    port: int

    def address(self, name: str) -> str:
        """The URL of a server: the first entry below its type and its implementation."""
        text = Client(f"http://127.0.0.1:{self.port}").get("/global_config_dict_yaml")
        (implementations,) = OmegaConf.create(text)[name].values()
        (server,) = implementations.values()
        return f"http://{server['host']}:{server['port']}"


@pytest.fixture(scope="module")
def head(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Head]:
    folder, port = tmp_path_factory.mktemp("run"), free_port()
    with running("resources_server", "--strict") as foreign:
        server = {"resources_servers": {"somebody_elses": {"url": foreign}}}
        (folder / "foreign.yaml").write_text(json.dumps({"foreign_environment": server}))
        configs = [f"resources_servers/{name}/configs/{name}.yaml" for name in STATEFUL]
        configs += ["responses_api_models/scripted_model/configs/scripted_model.yaml"]
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [
                    *NG_RUN,
                    f"+config_paths=[foreign.yaml,{','.join(configs)}]",
                    f"+head_server.port={port}",
                    "+policy_model.responses_api_models.scripted_model.skill=1",
                ],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        with process:
            try:
                log_path = folder / "log"
                wait_until(lambda: process.poll() is not None or b"Ctrl-C" in log_path.read_bytes())
                assert process.poll() is None, log_path.read_text()
                yield Head(folder, port)
            finally:
                process.terminate()


def example_rows(name: str) -> list[Json]:
    path = ROOT / "resources_servers" / name / "data" / "example.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()]


def rewards(agent: str, rows: list[Json]) -> list[float]:
    def reward(row: Json) -> float:
        reply = Client(agent).post("/run", row)
        assert reply.status == 200, reply.text
        value: float = reply.json()["reward"]
        return value

    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(reward, rows))


@for_each("name", STATEFUL)
def test_an_agent_that_keeps_only_the_last_cookies_solves_a_stateful_environment(
    head: Head, name: str
) -> None:
    resources, model = head.address(f"{name}_resources_server"), head.address("policy_model")
    rows = example_rows(name)
    options = ("--in-turn", "--resources-url", resources, "--model-url", model)
    with running("agent", *options) as agent:
        assert rewards(agent, rows) == [1.0] * len(rows)


def test_a_foreign_collector_finds_our_agents_and_collects_from_them(head: Head) -> None:
    agent = head.address("example_session_state_mgmt_simple_agent")
    row = {**example_rows("example_session_state_mgmt")[0], "_ng_task_index": 0}
    assert rewards(agent, [row]) == [1.0]
    body = {"verify_responses": [{"_ng_task_index": 0, "_ng_rollout_index": 0, "reward": 1.0}]}
    metrics = Client(agent).post("/aggregate_metrics", body).json()
    assert metrics["agent_metrics"]["mean/reward"] == 1.0
    assert Client(agent).send("GET", "/").status == 200


def test_a_foreign_server_without_healthz_is_not_called_unhealthy(head: Head) -> None:
    status = ng_status(head.folder, f"+head_server.port={head.port}")
    assert status.returncode == 0, status.stdout
    assert head.address("foreign_environment").startswith("http://127.0.0.1:")
