"""Web rollouts while a process is killed, is down for a while, or never responds.

Finished rollouts stay, none completes twice, and rollouts that lose a server are retried or wait.
"""

import signal
import socket
import time
from pathlib import Path

import pytest

from rollgym.engine import ExitStatus
from tests.e2e.rolling import (
    Iteration,
    Rollout,
    Service,
    Stage,
    check_pictures,
    keys,
    number_task,
    rewards,
    roll_out,
    stage_of_module,
    write_tasks,
)

TASKS = 6
THREE_AT_ONCE = ("env_config.server_size=3", "env_config.evaluation_workers=1")
AWAY_SECONDS = 10.0

pytestmark = pytest.mark.timeout(240)
servers = stage_of_module(latency=0.3)


def tasks_of(folder: Path) -> list[str]:
    """The third is over while the first two are in the middle, and the others wait."""
    begun_first = {0: 3, 1: 3, 2: 2}
    tasks = [
        number_task(number, slowly=number != 2) | {"difficulty": begun_first.get(number, 1)}
        for number in range(TASKS)
    ]
    return [*write_tasks(folder, tasks), *THREE_AT_ONCE]


def check_complete(iteration: Iteration) -> None:
    """Every rollout has one end, and one trajectory, with its reward."""
    everything = [(number, 0) for number in range(TASKS)]
    assert sorted(attempt.key for attempt in iteration.ends) == everything
    trajectories = iteration.trajectories
    assert keys(trajectories) == everything
    assert rewards(trajectories) == {f"number-{number}": 1.0 for number in range(TASKS)}
    assert iteration.report.final
    check_pictures(iteration.paths.save_path, trajectories)


def test_a_killed_iteration_goes_on_where_it_was(tmp_path: Path, servers: Stage) -> None:
    iteration, options = Iteration(tmp_path), tasks_of(tmp_path)
    rollout = Rollout(servers, tmp_path, *options)
    rollout.until(iteration.has_ended(1))
    rollout.kill()
    before = iteration.ends
    assert len(before) < TASKS
    ended = roll_out(servers, tmp_path, *options)
    assert ended.coverage == "6 expected = 6 completed + 0 failed + 0 omitted + 0 unresolved"
    assert iteration.ends[: len(before)] == before
    assert iteration.failures == []
    check_complete(iteration)


@pytest.mark.campaign
def test_an_interrupted_iteration_ends_what_is_in_flight_and_goes_on_later(
    tmp_path: Path, servers: Stage
) -> None:
    iteration, options = Iteration(tmp_path), tasks_of(tmp_path)
    rollout = Rollout(servers, tmp_path, *options)
    rollout.until(iteration.has_ended(1))
    rollout.process.send_signal(signal.SIGINT)
    interrupted = rollout.end()
    assert interrupted.status == ExitStatus.INTERRUPTED, interrupted.stderr
    before = iteration.ends
    assert keys(iteration.trajectories) == sorted(attempt.key for attempt in before)
    assert 3 <= len(before) < TASKS
    roll_out(servers, tmp_path, *options)
    assert iteration.ends[: len(before)] == before
    assert iteration.failures == []
    check_complete(iteration)


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("browser", {"browser", "browser_unavailable"}),
        pytest.param("sites", {"environment", "verifier"}, marks=pytest.mark.campaign),
    ],
)
def test_episodes_that_a_killed_server_had_are_played_again(
    tmp_path: Path, servers: Stage, name: str, kinds: set[str]
) -> None:
    iteration = Iteration(tmp_path)
    rollout = Rollout(servers, tmp_path, *tasks_of(tmp_path), "env_config.max_retries=6")
    rollout.until(iteration.has_ended(1))
    server: Service = getattr(servers, name)
    with server.away():
        time.sleep(1)
    ended = rollout.end()
    assert ended.status == ExitStatus.COMPLETE, ended.stdout + ended.stderr
    assert iteration.failures
    assert set(iteration.failures) <= kinds
    check_complete(iteration)


@pytest.mark.campaign
def test_a_model_server_that_is_away_for_ten_seconds_is_waited_for(
    tmp_path: Path, servers: Stage
) -> None:
    iteration = Iteration(tmp_path)
    rollout = Rollout(servers, tmp_path, *tasks_of(tmp_path))
    rollout.until(iteration.has_ended(1))
    with servers.policy.away():
        time.sleep(AWAY_SECONDS)
        assert len(iteration.ends) < TASKS
    ended = rollout.end()
    assert ended.status == ExitStatus.COMPLETE, ended.stdout + ended.stderr
    assert iteration.failures == []
    check_complete(iteration)


def test_a_task_that_hangs_is_omitted(tmp_path: Path, servers: Stage) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        hanging = number_task(6, site=address) | {"task_id": "hanging", "difficulty": 9}
        tasks = write_tasks(tmp_path, [hanging, *map(number_task, range(6))])
        rule = ["env_config.completion_threshold=0.85", "env_config.completion_grace_period=1"]
        options = [*tasks, *rule, "env_config.server_size=4"]
        ended = roll_out(servers, tmp_path, *options, status=ExitStatus.OMITTED)
    assert ended.coverage == "7 expected = 6 completed + 0 failed + 1 omitted + 0 unresolved"
    iteration = Iteration(tmp_path)
    assert [each.key for each in iteration.ends if each.status == "omitted"] == [(0, 0)]
    assert iteration.sampled[0] == "hanging"
    assert rewards(iteration.trajectories) == {f"number-{number}": 1.0 for number in range(6)}
    assert iteration.report.coverage.omitted == 1
