"""Servers on a real Ray cluster: placed, called, killed, placed again, and ended."""

import json
import os
import signal
import subprocess
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.ports import free_port
from tests.ray.cluster import ROOT, RayCluster, driver, finals, wait_until

REPEATS = 30
EXPECTED = 5 * REPEATS
JOURNAL = Path("out.run/journal.jsonl")
TOKEN = "a-token-for-the-servers"
INPUT = ROOT / "resources_servers/example_multi_step/data/example.jsonl"
CONFIGS = (
    "responses_api_models/scripted_model/configs/scripted_model.yaml",
    "resources_servers/example_multi_step/configs/example_multi_step.yaml",
)
ENVIRONMENT = "example_multi_step_resources_server"
SERVERS = (
    f"+config_paths=[{','.join(str(ROOT / each) for each in CONFIGS)}]",
    f"+{ENVIRONMENT}.resources_servers.example_multi_step.processes=2",
    "+policy_model.responses_api_models.scripted_model.latency=0.1",
)
ROLLOUTS = (
    "+agent_name=example_multi_step_simple_agent",
    f"+input_jsonl_fpath={INPUT}",
    f"+num_repeats={REPEATS}",
    "+num_samples_in_parallel=8",
)
pytestmark = [pytest.mark.ray, pytest.mark.timeout(600)]
Json = dict[str, Any]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "driver"
    folder.mkdir()
    return folder


@pytest.fixture
def cluster(folder: Path) -> Iterator[RayCluster]:
    with RayCluster(os.environ["ROLLGYM_RAY_PYTHON"], folder) as started:
        yield started


def test_ng_run_places_servers_that_outlive_processes_and_nodes(
    cluster: RayCluster, folder: Path
) -> None:
    head = free_port()
    options = (f"+head_server.port={head}", f"+server_token={TOKEN}")
    ray = ("+launcher=ray", f"+ray_address={cluster.address}")

    with driver(cluster, folder, ["-m", "rollgym.cli.ng_run", *SERVERS, *options, *ray]) as serving:
        wait_until(lambda: _ready(serving, folder, head), "ready servers")
        before = _listed(head)
        assert len(cluster.server_processes()) == 4
        assert len({each["node"] for each in before[ENVIRONMENT]["replicas"]}) >= 1
        collect = ["-m", "rollgym.cli.collect", *ROLLOUTS, *options]
        with driver(cluster, folder, [*collect, "+output_jsonl_fpath=out.jsonl"]) as collecting:
            _wait_for(folder, 10, collecting)
            os.kill(before[ENVIRONMENT]["replicas"][0]["pid"], signal.SIGKILL)
            _wait_for(folder, 40, collecting)
            same = _listed(head)[ENVIRONMENT]
            assert same["urls"] == before[ENVIRONMENT]["urls"]
            assert same["restarts"] == 1

            _wait_for(folder, 60, collecting)
            node = _node_of_a_server(cluster, besides=0)
            cluster.kill_raylet(node)
            assert collecting.wait(300) == 0, _said(folder)
        wait_until(lambda: _ready(serving, folder, head), "servers in other places")
        after = _listed(head)
        assert {name: each["urls"] for name, each in after.items()} != {
            name: each["urls"] for name, each in before.items()
        }
        serving.send_signal(signal.SIGINT)
        assert serving.wait(60) == 0, _said(folder)

    _expect_all(folder)
    wait_until(lambda: not cluster.server_processes(), "the end of the servers")
    wait_until(lambda: not _actors(cluster), "the end of the actors")


def test_a_collection_places_its_servers_and_none_outlives_a_killed_driver(
    cluster: RayCluster, folder: Path
) -> None:
    command = ["-m", "rollgym.cli.collect", *SERVERS, *ROLLOUTS, "+output_jsonl_fpath=out.jsonl"]
    command += ["+launcher=ray", f"+ray_address={cluster.address}", "+processes=2"]

    with driver(cluster, folder, command) as first:
        _wait_for(folder, 10, first)
        actors = _actors(cluster)
        assert len(cluster.server_processes()) == len(actors) == 2
        os.kill(actors[0], signal.SIGKILL)
        _wait_for(folder, 60, first)
        first.kill()
        first.wait()
    wait_until(lambda: not cluster.server_processes(), "the end of the servers")
    wait_until(lambda: not _actors(cluster), "the end of the actors")
    with driver(cluster, folder, command) as second:
        assert second.wait(300) == 0, _said(folder)

    _expect_all(folder)
    assert not cluster.server_processes()


def _listed(head: int) -> dict[str, Json]:
    url = f"http://127.0.0.1:{head}/server_instances"
    with urllib.request.urlopen(url, timeout=30) as answer:
        return {each["name"]: each for each in json.load(answer)}


def _ready(serving: "subprocess.Popen[bytes]", folder: Path, head: int) -> bool:
    assert serving.poll() is None, _said(folder)
    try:
        servers = _listed(head).values()
    except OSError:
        return False
    return all(each["status"] == "ready" for each in servers)


def _node_of_a_server(cluster: RayCluster, besides: int) -> str:
    """A node, not the head, on which servers run."""
    actors = _actors(cluster)
    nodes = {node for process, node, _ in cluster.processes() if process in actors}
    return next(node for node in sorted(nodes) if not node.endswith(f"-{besides}"))


def _actors(cluster: RayCluster) -> list[int]:
    """The processes of the actors that have servers."""
    return cluster.processes_called("ray::RayServer") + cluster.processes_called("ray::serve ")


def _wait_for(folder: Path, count: int, running: "subprocess.Popen[bytes]") -> None:
    def reached() -> bool:
        assert running.poll() is None, _said(folder)
        return len(finals(folder / JOURNAL)) >= count

    wait_until(reached, f"{count} finished rollouts")


def _expect_all(folder: Path) -> None:
    found = finals(folder / JOURNAL)
    assert len(found) == len(set(found)) == EXPECTED
    failures = map(msgspec.json.decode, (folder / "out_failures.jsonl").read_bytes().splitlines())
    kinds = Counter(row["_ng_failure_class"] for row in failures)
    assert set(kinds) <= {"agent", "environment", "tool", "model_unavailable", "worker"}
    print("failed attempts:", dict(kinds))


def _said(folder: Path) -> str:
    return "\n".join(path.read_text()[-5000:] for path in sorted(folder.glob("driver-*.log")))
