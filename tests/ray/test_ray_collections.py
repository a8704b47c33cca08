"""Collections on a real Ray cluster whose nodes, workers and drivers are killed.

`make test-ray` runs them; `make test-ray ROUNDS=20` is the campaign.
"""

import os
import random
import signal
import subprocess
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from tests.ray.cluster import ROOT, RayCluster, can_hide, driver, finals, wait_until

ROUNDS = int(os.environ.get("ROLLGYM_RAY_ROUNDS", "2"))
REPEATS = 60
EXPECTED = 5 * REPEATS
INPUT = ROOT / "resources_servers/example_multi_step/data/example.jsonl"
CONFIGS = (
    "responses_api_models/scripted_model/configs/scripted_model.yaml",
    "resources_servers/example_multi_step/configs/example_multi_step.yaml",
)
pytestmark = [pytest.mark.ray, pytest.mark.timeout(600 + 300 * ROUNDS)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the driver, which no node can see."""
    folder = tmp_path_factory.mktemp("ray") / "driver"
    folder.mkdir()
    return folder


@pytest.fixture(scope="module")
def cluster(folder: Path) -> Iterator[RayCluster]:
    with RayCluster(os.environ["ROLLGYM_RAY_PYTHON"], folder) as started:
        yield started


class Run:
    """One run: its command, and what is on disk, read as plain JSON."""

    def __init__(self, cluster: RayCluster, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.output = folder / "rollouts.jsonl"
        self.command = [
            *("-m", "rollgym.cli.collect"),
            f"+config_paths=[{','.join(str(ROOT / each) for each in CONFIGS)}]",
            "+agent_name=example_multi_step_simple_agent",
            f"+input_jsonl_fpath={INPUT}",
            f"+output_jsonl_fpath={self.output}",
            f"+num_repeats={REPEATS}",
            "+num_samples_in_parallel=12",
            "+policy_model.responses_api_models.scripted_model.latency=0.1",
            *("+launcher=ray", f"+ray_address={cluster.address}", "+processes=3"),
        ]

    def finals(self) -> list[tuple[int, int]]:
        return finals(self.folder / "rollouts.run" / "journal.jsonl")

    def rows(self) -> Counter[tuple[int, int]]:
        rows = map(msgspec.json.decode, self.output.read_bytes().splitlines())
        return Counter((row["_ng_task_index"], row["_ng_rollout_index"]) for row in rows)

    def kinds(self) -> Counter[str]:
        failures = self.folder / "rollouts_failures.jsonl"
        rows = map(msgspec.json.decode, failures.read_bytes().splitlines())
        return Counter(row["_ng_failure_class"] for row in rows)


@pytest.mark.skipif(not can_hide(), reason="the system gives processes no folders of their own")
def test_no_two_nodes_share_the_folder_of_the_run(cluster: RayCluster) -> None:
    assert len(cluster.raylets()) == 3
    assert cluster.shared_folders() == []


@pytest.mark.parametrize("number", range(ROUNDS))
def test_nothing_is_lost_or_doubled_when_workers_nodes_and_the_driver_are_killed(
    cluster: RayCluster, folder: Path, number: int
) -> None:
    chance = random.Random(f"{cluster.name} {number}")
    moments = sorted(chance.sample(range(5, EXPECTED - 60), 3))
    run = Run(cluster, folder / f"round-{number}")
    print("finished rollouts at the kills:", moments)

    with driver(cluster, run.folder, run.command) as first:
        _wait_for(run, moments[0], first)
        os.kill(chance.choice(sorted(cluster.actors())), signal.SIGKILL)
        _wait_for(run, moments[1], first)
        cluster.kill_raylet(chance.choice(cluster.others))
        _wait_for(run, moments[2], first)
        first.kill()
        first.wait()
    wait_until(lambda: not cluster.actors(), "the end of the workers of a killed driver")
    before = run.finals()
    cluster.add_node()
    with driver(cluster, run.folder, run.command) as second:
        assert second.wait(300) == 0, (run.folder / "driver-1.log").read_text()

    after = run.finals()
    assert len(after) == len(set(after)) == EXPECTED
    assert after[: len(before)] == before
    assert len(run.rows()) == EXPECTED
    assert set(run.rows().values()) == {1}
    assert set(run.kinds()) <= {"worker"}
    wait_until(lambda: not cluster.actors(), "the end of the workers")


def test_metrics_are_exported_and_workers_have_names(cluster: RayCluster, folder: Path) -> None:
    run = Run(cluster, folder / "metrics")

    with driver(cluster, run.folder, run.command) as collecting:
        _wait_for(run, 20, collecting)
        wait_until(lambda: "rollgym_rollouts" in _exported(cluster), "the metrics")
        listed = _listed_actors(cluster)
        collecting.send_signal(signal.SIGINT)
        collecting.send_signal(signal.SIGINT)
        collecting.wait(60)

    exported = _exported(cluster)
    assert 'outcome="completed"' in exported
    for name in ("attempts", "attempts_in_flight", "tokens"):
        assert f"rollgym_{name}" in exported
    assert sum("rollgym worker" in name for name in listed) == 3


def _wait_for(run: Run, count: int, running: "subprocess.Popen[bytes]") -> None:
    def reached() -> bool:
        assert running.poll() is None, (run.folder / "driver-0.log").read_text()
        return len(run.finals()) >= count

    wait_until(reached, f"{count} finished rollouts")


def _exported(cluster: RayCluster) -> str:
    token = cluster.environment["RAY_AUTH_TOKEN"]
    request = urllib.request.Request(
        f"http://127.0.0.1:{cluster.metrics_port}/metrics",
        headers={"authorization": f"Bearer {token}"},
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        text: str = answer.read().decode()
    return text


def _listed_actors(cluster: RayCluster) -> list[str]:
    """The names of the actors, as Ray lists them to any program."""
    program = (
        "import ray, json; "
        f"ray.init(address='{cluster.address}', log_to_driver=False); "
        "from ray.util import list_named_actors; "
        "print(json.dumps([each['name'] for each in list_named_actors(all_namespaces=True)]))"
    )
    said = subprocess.run(
        [cluster.python, "-c", program],
        env=cluster.environment,
        capture_output=True,
        text=True,
        check=True,
    )
    names: list[str] = msgspec.json.decode(said.stdout.splitlines()[-1])
    return names
