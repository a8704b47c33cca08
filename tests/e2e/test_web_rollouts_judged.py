"""Rollouts with a judge, and of sites that block the agent."""

import json
import shutil
from argparse import ArgumentParser
from pathlib import Path

import pytest

from rollgym.engine import ExitStatus
from rollgym.store import RefusedError
from tests.e2e.command import records
from tests.e2e.rolling import (
    Iteration,
    Record,
    Rollout,
    Stage,
    judge,
    judged,
    number_task,
    rewards,
    roll_out,
    stage_of_module,
    write_tasks,
)
from webgym.rollout import rejudge as rejudging
from webgym.trajectory.torch_file import read_torch_file

ONE_RETRY = "env_config.max_retries=1"
FAILING = ("error",) * 6
"""The responses of a failing judge to one attempt: three calls, each repeated once."""
WALL: Record = {
    "task_id": "wall",
    "task_name": "What does a ticket for the evening concert on 12 June cost?",
    "domain": "Entertainment",
    "subdomain": "Tickets",
    "difficulty": 2,
    "evaluator_reference": [],
    "definite_answer": None,
    "verifier": "sites",
    "truth": [],
    "blocked": True,
}

servers = stage_of_module()


def test_a_judge_scores_a_task_without_a_check_of_its_own(tmp_path: Path, servers: Stage) -> None:
    """The first attempt gets no verdict, so the stored episode is judged again."""
    tasks = write_tasks(tmp_path, [judged(number_task(1, slowly=True))])
    with judge(tmp_path, "pass", *FAILING) as options:
        roll_out(servers, tmp_path, *tasks, *options, ONE_RETRY)
    iteration = Iteration(tmp_path)
    assert iteration.failures == ["verifier"]
    (trajectory,) = iteration.trajectories
    last = trajectory["steps"][-1]["reward"]
    assert (trajectory["reward"], last["reward"], last["submit"]) == (1.0, 1.0, True)
    assert trajectory["attempt"] == 2
    attempts = [row["outcome"]["result"] for row in records(iteration.paths.run)]
    assert len({attempt["session"] for attempt in attempts}) == 1
    assert attempts[1]["judge_usage"]["input_tokens"] > 0
    assert last["evaluation"]["judge"] == "model:judge"
    assert trajectory["keypoint_step_ids"]


def test_a_judge_that_fails_gives_a_typed_failure_that_can_be_retried(
    tmp_path: Path, servers: Stage
) -> None:
    tasks = write_tasks(tmp_path, [judged(number_task(1)), number_task(2)])
    with judge(tmp_path, "pass", *FAILING) as options:
        once = [*tasks, *options, "env_config.max_retries=0", "iteration=0"]
        ended = roll_out(servers, tmp_path, *once, status=ExitStatus.FAILED)
        assert ended.coverage == "2 expected = 1 completed + 1 failed + 0 omitted + 0 unresolved"
        iteration = Iteration(tmp_path)
        assert iteration.failures == ["verifier"]
        assert iteration.report.metrics.crashed == 1
        assert rewards(iteration.trajectories) == {"number-1": None, "number-2": 1.0}
        failed = next(each for each in iteration.trajectories if each["outcome"] == "failed")
        assert failed["failure"]["kind"] == "verifier"
        assert failed["steps"][-1]["action"] is None
        assert all(step["reward"] is None for step in failed["steps"])
        copy = Path(shutil.copytree(tmp_path, tmp_path.with_name("copy")))
        everything = tmp_path / "all.pt"
        other = [*options, "openai_config.model=other", "--output", str(everything)]
        assert rejudge(copy, *other) == ExitStatus.COMPLETE
        assert rewards(read_torch_file(everything)) == {"number-1": 1.0, "number-2": 1.0}
        assert rewards(Iteration(copy).trajectories) == {"number-1": None, "number-2": 1.0}
        with pytest.raises(RefusedError, match="judge.evaluation.model is 'judge' in the run"):
            rejudge(copy, *options, "openai_config.model=other")
        assert rejudge(copy, *options) == ExitStatus.COMPLETE
        judged_again = Iteration(copy)
        assert rewards(judged_again.trajectories) == {"number-1": 1.0, "number-2": 1.0}
        assert judged_again.report.final
        assert [end.failure for end in judged_again.ends if end.key[0] == 0] == ["verifier", None]
        assert judged_again.report.metrics.judge_input_tokens > 0
        played = {each["task_id"]: each["session"] for each in iteration.trajectories}
        roll_out(servers, tmp_path, *once, "retry_failed=true")
    assert {each["task_id"]: each["session"] for each in iteration.trajectories} == played
    assert rewards(Iteration(tmp_path).trajectories) == {"number-1": 1.0, "number-2": 1.0}


@pytest.mark.campaign
def test_an_episode_that_waits_for_its_judge_survives_a_kill(
    tmp_path: Path, servers: Stage
) -> None:
    tasks = write_tasks(tmp_path, [judged(number_task(1))])
    iteration = Iteration(tmp_path)
    kept = iteration.paths.run / "unjudged" / "0-0.json"
    with judge(tmp_path, "pass", "hang") as options:
        killed = Rollout(servers, tmp_path, *tasks, *options)
        killed.until(kept.exists)
        killed.kill()
        played = json.loads(kept.read_text())["session"]
        roll_out(servers, tmp_path, *tasks, *options)
    (trajectory,) = iteration.trajectories
    assert (trajectory["session"], trajectory["reward"]) == (played, 1.0)
    assert not kept.exists()


def rejudge(folder: Path, *settings: str) -> int:
    """`rollgym rejudge` on this folder."""
    parser = ArgumentParser()
    rejudging.configure(parser)
    return rejudging.run(parser.parse_args([str(folder), *settings]))


@pytest.mark.parametrize("watched", [True, pytest.param(False, marks=pytest.mark.campaign)])
def test_a_judge_that_sees_a_blocking_page_marks_the_episode_as_blocked(
    tmp_path: Path, servers: Stage, watched: bool
) -> None:
    """With `watch_for_blocking` the episode ends at once."""
    tasks = write_tasks(tmp_path, [judged(WALL) | {"website": "{sites}/captcha/"}])
    watching = f"env_config.watch_for_blocking={watched}"
    with judge(tmp_path, "blocked") as options:
        roll_out(servers, tmp_path, *tasks, *options, watching)
    (trajectory,) = Iteration(tmp_path).trajectories
    assert trajectory["reward"] == 0.0
    assert trajectory["steps"][-1]["reward"]["is_blocked"]
    assert trajectory["ending"] == ("blocked" if watched else "answer")
    metrics = Iteration(tmp_path).report.metrics
    assert (metrics.blocked, metrics.blocked_rate, metrics.crashed) == (1, 1.0, 0)


def test_training_excludes_a_domain_that_blocks_the_agent(tmp_path: Path, servers: Stage) -> None:
    """The bundled sites share one address, so the blocklist ignores them."""
    wall = WALL | {"website": f"http://localhost:{servers.sites.port}/captcha/"}
    bundled = WALL | {"task_id": "bundled", "website": "{sites}/captcha/"}
    tasks = write_tasks(tmp_path, [wall, bundled, number_task(1, site=servers.sites.url)])
    options = [*tasks, "blocklist_config.observations=1"]
    roll_out(servers, tmp_path, *options)
    first = Iteration(tmp_path)
    metrics = first.report.metrics
    assert (metrics.blocked, metrics.blocked_rate, metrics.success_rate) == (2, 2 / 3, 1.0)
    blocked = next(each for each in first.trajectories if each["task_id"] == "wall")
    assert blocked["steps"][-1]["reward"]["is_blocked"]

    again = roll_out(servers, tmp_path, *options)
    assert "tasks of blocked domains are excluded: 1 of localhost" in again.stderr
    assert set(Iteration(tmp_path, number=1).sampled) == {"bundled", "number-1"}
