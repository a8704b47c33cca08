"""`+processes=2` as a user meets it: workers that are killed, Ctrl-C, a driver that is killed."""

import os
import signal
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from tests.builders import read_json_lines
from tests.e2e.command import finish, start, wait_for_records, wait_until
from tests.e2e.test_collect_rollouts import KEYS, MANY

PROCESSES = "+processes=2"
RUN = Path("results/rollouts.run")
SMALL_PAUSE = "+policy_model.responses_api_models.scripted_model.latency=0.2"
ENVIRONMENT = "example_multi_step_resources_server.resources_servers.example_multi_step"
IN_PARALLEL = 4
REPLICAS = f"+{ENVIRONMENT}.processes=2"
Workers = list[int]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("responses_api_models", "resources_servers", "responses_api_agents"):
        (tmp_path / name).symlink_to(Path(__file__).parents[2] / name)
    return tmp_path


def test_a_killed_worker_costs_attempts_and_no_rollout(folder: Path) -> None:
    command = start(folder, *MANY, PROCESSES, "+num_samples_in_parallel=4", SMALL_PAUSE)
    wait_for_records(folder / RUN, 2)
    workers = _workers(command)
    assert len(workers) == 2

    os.kill(workers[0], signal.SIGKILL)
    ended = finish(command)

    assert ended.status == 0, ended.text
    assert Counter(_keys(folder)) == Counter(KEYS)
    failures = read_json_lines(folder / "results/rollouts_failures.jsonl")
    assert {each["_ng_failure_class"] for each in failures} == {"worker"}
    assert "worker" in ended.stderr
    assert not any(map(_exists, workers))

    output = folder / "results/rollouts.jsonl"
    before = output.stat()
    assert finish(start(folder, *MANY)).status == 0
    after = output.stat()
    assert (before.st_ino, before.st_size) == (after.st_ino, after.st_size), "it was made again"


def test_a_killed_replica_costs_only_the_attempts_of_its_sessions(folder: Path) -> None:
    command = start(folder, *MANY, REPLICAS, f"+num_samples_in_parallel={IN_PARALLEL}", SMALL_PAUSE)
    wait_for_records(folder / RUN, 2)
    replicas = _started_by(command, "rollgym.servers.launch.child")
    assert len(replicas) == 2

    os.kill(replicas[0], signal.SIGKILL)
    ended = finish(command)

    assert ended.status == 0, ended.text
    assert Counter(_keys(folder)) == Counter(KEYS)
    failures = read_json_lines(folder / "results/rollouts_failures.jsonl")
    assert {each["_ng_failure_class"] for each in failures} <= {"environment", "tool"}
    assert len(failures) <= IN_PARALLEL
    assert "is restarted in 0.25 s" in ended.stderr


@pytest.mark.campaign
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_workers_end_with_their_driver_and_the_same_command_continues(
    folder: Path, number: signal.Signals
) -> None:
    command = start(folder, *MANY, PROCESSES, SMALL_PAUSE)
    wait_for_records(folder / RUN, 4)
    workers = _workers(command)

    command.send_signal(number)
    ended = finish(command)

    assert ended.status == (5 if number == signal.SIGINT else -number)
    wait_until(lambda: not any(map(_exists, workers)))
    again = finish(start(folder, *MANY, PROCESSES))
    assert again.status == 0, again.text
    assert Counter(_keys(folder)) == Counter(KEYS)


@pytest.mark.campaign
def test_results_do_not_depend_on_the_number_of_processes(folder: Path) -> None:
    def rewards(*options: str) -> dict[tuple[int, int], float]:
        ended = finish(start(folder, *MANY, *options, "+resume=false"))
        assert ended.status == 0, ended.text
        rows = read_json_lines(folder / "results/rollouts.jsonl")
        return {(row["_ng_task_index"], row["_ng_rollout_index"]): row["reward"] for row in rows}

    assert rewards(PROCESSES) == rewards()


def _keys(folder: Path) -> list[tuple[int, int]]:
    rows = read_json_lines(folder / "results/rollouts.jsonl")
    return [(row["_ng_task_index"], row["_ng_rollout_index"]) for row in rows]


def _workers(command: "subprocess.Popen[str]") -> Workers:
    return _started_by(command, "rollgym.cluster.process")


def _started_by(command: "subprocess.Popen[str]", module: str) -> list[int]:
    """The processes with this module that a command has started."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
            arguments = (entry / "cmdline").read_text()
        except OSError:
            continue  # it has ended
        if int(parent) == command.pid and module in arguments:
            found.append(int(entry.name))
    return found


def _exists(process: int) -> bool:
    return Path(f"/proc/{process}").exists()
