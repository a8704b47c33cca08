"""Web episodes on a real Ray cluster whose browser nodes are killed."""

import os
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.ray.cluster import ROOT, RayCluster, driver, wait_until

TASKS, REPEATS = 6, 3
SESSIONS = 2  # of each node
pytestmark = [pytest.mark.ray, pytest.mark.timeout(900)]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[RayCluster]:
    folder = tmp_path / "driver"
    folder.mkdir()
    with RayCluster(os.environ["ROLLGYM_RAY_PYTHON"], folder) as started:
        yield started


def test_sessions_of_a_killed_browser_node_run_again_and_others_go_on(
    cluster: RayCluster, tmp_path: Path
) -> None:
    folder = tmp_path / "driver"
    command = [
        str(ROOT / "scripts" / "rollout.py"),
        *("--config-name", "demo", f"save_path={folder / 'out'}"),
        *("launcher=ray", f"ray_address={cluster.address}", "processes=2"),
        *(f"ray_browsers_per_node={SESSIONS}", "env_config.server_size=6"),
        f"env_config.rollouts_per_task={REPEATS}",
        "env_config.completion_threshold=1",
    ]

    with driver(cluster, folder, command) as collecting:
        wait_until(lambda: _busy(folder, collecting) >= 4, "episodes in the browsers", 300)
        nodes = cluster.processes_called("ray::RayBrowserNode")
        assert len(nodes) == 3
        os.kill(nodes[0], signal.SIGKILL)
        status = collecting.wait(600)

    assert status == 0, (folder / "driver-0.log").read_text()
    records = _records(folder)
    finals = Counter((each["task"], each["repeat"]) for each in records if each["final"])
    assert len(finals) == TASKS * REPEATS
    assert set(finals.values()) == {1}
    failures = [each["outcome"] for each in records if each["outcome"]["status"] == "failed"]
    print("failed attempts:", [each["failure"]["detail"] for each in failures])
    assert 1 <= len(failures) <= SESSIONS
    lost = {each["failure"]["detail"].partition("its node ")[2].split()[0] for each in failures}
    assert len(lost) == 1
    assert {each["failure"]["kind"] for each in failures} <= {"browser", "browser_unavailable"}
    wait_until(lambda: not cluster.processes_called("ray::RayBrowserNode"), "the end of the nodes")


def _records(folder: Path) -> list[dict[str, Any]]:
    journals = (folder / "out").glob("train_trajectories/*.run/journal.jsonl")
    return [
        msgspec.json.decode(line)
        for journal in journals
        for line in journal.read_bytes().splitlines()
    ]


def _busy(folder: Path, collecting: "subprocess.Popen[bytes]") -> int:
    """The episodes that have a browser, as the monitor shows them."""
    assert collecting.poll() is None, (folder / "driver-0.log").read_text()
    for path in (folder / "out").rglob("monitor*.json"):
        snapshot = msgspec.json.decode(path.read_bytes())
        return sum(each["state"] == "running" for each in snapshot["live"])
    return 0
