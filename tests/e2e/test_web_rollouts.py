"""Training and test rollouts through `scripts/rollout.py`, in a real browser, to their files.

The policy plays recorded actions, so it is known what each task must come to.
"""

from pathlib import Path

import pytest
from _pytest.mark.structures import ParameterSet

from tests.e2e.browsing import MODES
from tests.e2e.rolling import (
    Iteration,
    Stage,
    check_pictures,
    keys,
    number_task,
    rewards,
    roll_out,
    stage_of_module,
    write_tasks,
)
from webgym.browser.contract.commands import InteractionMode
from webgym.sites.tasks.task import load_tasks

servers = stage_of_module()


def one_by_default(chosen: InteractionMode) -> list[ParameterSet]:
    """Both modes; the other one is for campaigns."""
    return [
        pytest.param(mode, marks=() if mode == chosen else pytest.mark.campaign) for mode in MODES
    ]


@pytest.mark.parametrize("mode", one_by_default("coordinates"))
def test_a_training_rollout_leaves_trajectories_and_their_metrics(
    tmp_path: Path, servers: Stage, mode: InteractionMode
) -> None:
    ended = roll_out(
        *(servers, tmp_path, "env_config.train_tasks=sites/train.jsonl"),
        *("env_config.train_tasks_rollout_size=2", "env_config.server_size=2"),
        f"context_config.interaction_mode={mode}",
    )
    assert ended.coverage == "2 expected = 2 completed + 0 failed + 0 omitted + 0 unresolved"
    iteration = Iteration(tmp_path)
    trajectories, metrics = iteration.trajectories, iteration.report.metrics
    assert keys(trajectories) == [(0, 0), (1, 0)]
    assert rewards(trajectories) == dict.fromkeys(iteration.sampled, 1.0)
    steps = sum(len(each["steps"]) for each in trajectories)
    assert (metrics.successes, metrics.success_rate, metrics.crashed) == (2, 1.0, 0)
    assert (metrics.steps, metrics.avg_steps) == (steps, steps / 2)
    assert ended.headline["success_rate"] == 1.0
    check_pictures(tmp_path, trajectories)


@pytest.mark.parametrize("mode", one_by_default("set_of_marks"))
def test_a_test_rollout_plays_the_first_tasks_so_many_times(
    tmp_path: Path, servers: Stage, mode: InteractionMode
) -> None:
    roll_out(
        *(servers, tmp_path, "env_config.test_tasks=sites/test.jsonl"),
        *("env_config.test_tasks_rollout_size=2", "env_config.test_tasks_repeat_times=2"),
        f"context_config.interaction_mode={mode}",
        config="rollout_test",
    )
    iteration = Iteration(tmp_path, "test")
    trajectories = iteration.trajectories
    assert iteration.sampled == [task.task_id for task in load_tasks("test")[:2]]
    assert keys(trajectories) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert [each["reward"] for each in trajectories] == [1.0] * 4
    limits = {each["task_id"]: each["max_steps"] for each in trajectories}
    assert limits == {"sites-shop-04": 30, "sites-shop-07": 50}
    assert {each["interaction_mode"] for each in trajectories} == {mode}
    for each in trajectories:
        *before, last = each["steps"]
        assert before
        assert last["action"]["key"] == "answer"
        assert last["reward"]["evaluation"]["judge"] == "truth:sites"
        assert all(step["response"]["raw_prompt"] for step in each["steps"])
    assert len({each["session"] for each in trajectories}) == 4


def test_browser_requests_can_go_through_worker_processes(tmp_path: Path, servers: Stage) -> None:
    tasks = write_tasks(tmp_path, (number_task(number, slowly=True) for number in range(3)))
    roll_out(servers, tmp_path, *tasks, "env_config.isolation=process")
    trajectories = Iteration(tmp_path).trajectories
    assert rewards(trajectories) == {"number-0": 1.0, "number-1": 1.0, "number-2": 1.0}
    check_pictures(tmp_path, trajectories)


@pytest.mark.campaign
def test_the_same_command_again_begins_the_next_iteration(tmp_path: Path, servers: Stage) -> None:
    tasks = write_tasks(tmp_path, [number_task(1)])
    for number in range(2):
        roll_out(servers, tmp_path, *tasks)
        assert rewards(Iteration(tmp_path, number=number).trajectories) == {"number-1": 1.0}
    told = roll_out(servers, tmp_path, *tasks, "iteration=1")
    assert "Iteration 1 is finished. No rollout was run." in told.stderr
    assert not Iteration(tmp_path, number=2).paths.run.exists()
