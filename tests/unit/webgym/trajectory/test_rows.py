"""Trajectories as rows of a file of rollouts."""

from rollgym.records import Failure, FailureKind
from tests.trajectories import SCREENSHOT, full_trajectory, step, trajectory
from webgym.trajectory.plain import failed_to_plain, rollout_row, to_plain


def test_a_completed_trajectory_has_two_turns_a_step() -> None:
    row = rollout_row(to_plain(full_trajectory()))
    assert (row["_ng_task_index"], row["_ng_rollout_index"]) == (3, 1)
    assert (row["reward"], row["success"]) == (1.0, True)
    assert row["responses_create_params"]["input"][0]["content"] == "Find the café"
    turns = row["output"]
    assert [turn["role"] for turn in turns] == ["user", "assistant", "tool", "user", "assistant"]
    text, picture = turns[0]["content"]
    assert "http://shop.test/é" in text["text"]
    assert picture["image_url"]["url"].endswith(SCREENSHOT.name)
    assert turns[1]["content"].startswith("Intention: buy")
    assert turns[1]["tool_calls"][0]["function"]["name"] == "click"
    assert turns[2]["tool_call_id"] == turns[1]["tool_calls"][0]["id"]
    assert row["metadata"]["steps"] == 2


def test_a_failed_trajectory_has_its_failure_and_no_reward() -> None:
    lost = Failure.make(FailureKind.BROWSER, "the browser died")
    row = rollout_row(failed_to_plain(full_trajectory(), lost))
    assert (row["reward"], row["success"]) == (None, None)
    assert row["_ng_failure_class"] == "browser"
    assert row["failure"]["detail"] == "the browser died"


def test_a_reward_below_1_is_no_success() -> None:
    row = rollout_row(to_plain(trajectory(step("answer", reward=0.9))))
    assert (row["reward"], row["success"]) == (0.9, False)


def test_a_trajectory_without_steps_has_a_row() -> None:
    row = rollout_row(to_plain(trajectory()))
    assert row["output"] == []
    assert row["responses_create_params"]["input"][0]["content"] == "Find the café"
