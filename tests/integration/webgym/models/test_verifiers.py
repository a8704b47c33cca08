"""Verifiers of users, named by their tasks."""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rollgym.records import EnvironmentSessionError, VerifierError
from tests.integration.webgym.models.episodes import episode, task_of
from webgym.models.evaluator import Evaluator
from webgym.models.verifiers import TaskSession, UnknownVerifierError, find_verifier
from webgym.rollout.sample import tasks_of
from webgym.trajectory.records import EpisodeVerdict, Trajectory

MODULE = """
import threading
from rollgym.records import EnvironmentSessionError

SEEN = []

def by_answer(trajectory):
    return trajectory.answer == trajectory.row["definite_answer"]

async def by_session(trajectory, session=None):
    SEEN.append(session)
    rewards = [0.25] * len(trajectory.steps)
    return {"reward": 1, "step_rewards": rewards, "evaluation": {"why": session and session.name}}

def broken(trajectory):
    raise KeyError("a bug")

def lost(trajectory):
    raise EnvironmentSessionError("the site forgot the session")

def nothing(trajectory):
    return None

def too_few(trajectory):
    return {"reward": 1.0, "step_rewards": [1.0]}

def mistyped(trajectory):
    return {"rewards": 1.0}

def endless(trajectory):
    return float("inf")

def hangs(trajectory):
    threading.Event().wait()

NUMBER = 7
"""
WEBSITE = "http://shop.example/?visitor={session}"


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A module in the working directory, which is not on the path."""
    (tmp_path / "own_checks.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield
    find_verifier.cache_clear()
    sys.modules.pop("own_checks", None)


def judged(
    folder: Path, function: str, timeout: float = 30.0, **fields: Any
) -> tuple[EpisodeVerdict, Trajectory]:
    """The verdict of a function of the module, without a judge, and the scored trajectory."""
    row = {"task_name": "x", "website": WEBSITE, "definite_answer": "blue"} | {
        "verifier": f"own_checks:{function}"
    }

    async def run() -> tuple[EpisodeVerdict, Trajectory]:
        async with Evaluator(None, folder, timeout=timeout) as evaluator:
            start = evaluator.start_url(task_of(row), "visit7")
            known = {"session": "visit7", "start_url": start, **fields}
            trajectory = episode(folder, row=row, **known)
            verdict = await evaluator.evaluate(trajectory)
            return verdict, trajectory.judged(verdict)

    return asyncio.run(run())


def test_a_function_scores_the_trajectory(tmp_path: Path) -> None:
    for answer, reward in (("blue", 1.0), ("red", 0.0)):
        verdict, _ = judged(tmp_path, "by_answer", answer=answer)
        assert (verdict.reward, verdict.evaluation["judge"]) == (
            reward,
            "verifier:own_checks:by_answer",
        )


def test_it_gets_the_session_and_may_reward_steps(tmp_path: Path) -> None:
    verdict, trajectory = judged(tmp_path, "by_session")
    assert [TaskSession("visit7", "http://shop.example/?visitor=visit7")] == sys.modules[
        "own_checks"
    ].SEEN
    assert verdict.evaluation["why"] == "visit7"
    rewards = [step.reward for step in trajectory.steps if step.reward]
    assert {reward.step_reward for reward in rewards} == {0.25}
    assert [reward.reward for reward in rewards] == [0.0] * (len(rewards) - 1) + [1.0]


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        ("broken", "KeyError: 'a bug'"),
        ("nothing", "the reward None is not a finite number"),
        ("endless", "the reward inf is not a finite number"),
        ("too_few", "it gave 1 step rewards for"),
        ("mistyped", "'rewards' is not one of evaluation, is_blocked, reward, step_rewards"),
        ("absent", "cannot be loaded: AttributeError"),
        ("NUMBER", "is 7, not a function"),
    ],
)
def test_what_is_not_a_reward_is_a_failure(tmp_path: Path, function: str, problem: str) -> None:
    with pytest.raises(VerifierError, match=problem):
        judged(tmp_path, function)


def test_a_function_that_hangs_is_abandoned_at_the_deadline(tmp_path: Path) -> None:
    with pytest.raises(VerifierError, match="no verdict within"):
        judged(tmp_path, "hangs", timeout=0.05)


def test_an_error_of_the_verifier_that_has_a_kind_keeps_it(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentSessionError, match="forgot the session"):
        judged(tmp_path, "lost")


def test_tasks_with_a_verifier_that_is_not_there_are_refused_before_anything_starts() -> None:
    row = {"task_name": "x", "website": "http://s.example/", "verifier": "own_checks:absent"}
    with pytest.raises(UnknownVerifierError, match="'own_checks:absent' cannot be loaded"):
        list(tasks_of([row]))


def test_a_name_that_is_not_installed_is_refused_with_what_can_be_given() -> None:
    with pytest.raises(UnknownVerifierError, match=r"give sites, miniwob, package\.module:functi"):
        find_verifier("site")
