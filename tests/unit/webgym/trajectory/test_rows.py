"""Trajectories as rows that the viewer shows."""

import msgspec

from rollgym.records import Failure, FailureKind
from rollgym.viewer.index import Head
from rollgym.viewer.rollout import Rollout
from tests.trajectories import SCREENSHOT, full_trajectory, step, trajectory
from webgym.trajectory.plain import PlainTrajectory, failed_to_plain, to_plain
from webgym.trajectory.rows import rollout_row


def shown(plain: PlainTrajectory) -> tuple[Head, Rollout]:
    line = msgspec.json.encode(rollout_row(plain))
    return msgspec.json.decode(line, type=Head), Rollout(line)


def test_the_viewer_shows_a_completed_trajectory() -> None:
    head, rollout = shown(to_plain(full_trajectory()))
    assert (head.task, head.repeat, head.reward, head.success) == (3, 1, 1.0, True)
    assert rollout.words == "Find the café"
    roles = [turn.role for turn in rollout.turns]
    assert roles == ["user", "assistant", "tool", "user", "assistant"]
    assert "http://shop.test/é" in rollout.turns[0].text
    assert SCREENSHOT.name in rollout.turns[0].text
    assert rollout.turns[1].text.startswith("Intention: buy")
    assert rollout.turns[1].calls[0].name == "click"
    assert rollout.turns[2].tool == "click"
    assert rollout.value("metadata")["steps"] == 2


def test_the_viewer_shows_why_a_trajectory_failed() -> None:
    lost = Failure.make(FailureKind.BROWSER, "the browser died")
    head, rollout = shown(failed_to_plain(full_trajectory(), lost))
    assert (head.reward, head.success) == (None, None)
    assert rollout.failure_class == "browser"
    assert rollout.value("failure")["detail"] == "the browser died"


def test_a_reward_below_1_is_no_success() -> None:
    head, _ = shown(to_plain(trajectory(step("answer", reward=0.9))))
    assert (head.reward, head.success) == (0.9, False)


def test_a_trajectory_without_steps_has_a_row() -> None:
    _, rollout = shown(to_plain(trajectory()))
    assert rollout.turns == []
    assert rollout.words == "Find the café"
