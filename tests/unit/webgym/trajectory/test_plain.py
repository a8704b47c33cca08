"""The plain form of trajectories, in both directions."""

from typing import Any

import msgspec
import pytest

from rollgym.records import Failure, FailureKind
from tests.trajectories import ROW, SCREENSHOT, full_step, full_trajectory, step, trajectory
from webgym.trajectory.metrics import calculate_rollout_metrics
from webgym.trajectory.plain import TrajectoryError, failed_to_plain, from_plain, to_plain
from webgym.trajectory.records import Trajectory
from webgym.trajectory.torch_archive import decode, encode

LOST = Failure.make(FailureKind.BROWSER, "the browser died")


def test_a_trajectory_comes_back_as_it_was() -> None:
    whole = full_trajectory()
    assert from_plain(to_plain(whole)) == whole
    assert from_plain(to_plain(trajectory())) == trajectory()


def test_the_trajectory_of_these_tests_leaves_nothing_at_its_default() -> None:
    """Otherwise a field that the plain form forgets would come back all the same."""
    whole, first = full_trajectory(), full_step()
    for part in (whole, first, first.observation, first.action, first.response, first.reward):
        assert part is not None
        for field in msgspec.structs.fields(part):
            assert getattr(part, field.name) != field.default, field.name


def test_the_plain_form_can_be_pickled_without_any_class() -> None:
    plain = to_plain(full_trajectory())
    assert decode(encode(plain)) == plain


def test_the_plain_form_has_the_names_that_training_code_reads() -> None:
    plain = to_plain(full_trajectory(), 1.0)
    assert plain["reward"] == 1.0
    assert plain["outcome"] == "completed"
    assert plain["failure"] is None
    assert plain["keypoint_step_ids"] == [0]
    first = plain["steps"][0]
    assert first["observation"]["task"] == plain["task"] == ROW
    assert first["observation"]["image_path"] == f"screenshots/ab/{SCREENSHOT.name}"
    assert first["observation"]["ac_tree"] == "button 'Buy'"
    assert first["observation"]["page_metadata"]["url"] == "http://shop.test/é"
    assert first["action"]["key"] == "click"
    assert first["action"]["action_string"] == "click (500, 250.5)"
    assert first["response"]["answering_tokens"] == {"memory": {"seen": 1}, "intention": "buy"}
    assert first["response"]["raw_prompt"][0]["role"] == "user"
    assert first["reward"]["submission_judgment"] == "shows the basket"
    assert first["same_as_next_screenshot"] is True


def test_every_key_is_there_whatever_the_values_are() -> None:
    empty = to_plain(trajectory(step()))
    full = to_plain(full_trajectory())
    assert empty.keys() == full.keys()
    assert empty["steps"][0].keys() == full["steps"][0].keys()
    for part in ("observation", "action", "response", "reward"):
        assert empty["steps"][0][part].keys() == full["steps"][0][part].keys()
    assert empty["steps"][0]["response"]["usage"].keys() == {
        "input_tokens",
        "output_tokens",
        "cached_tokens",
        "reasoning_tokens",
    }


def test_the_reward_is_that_of_the_last_step_where_the_outcome_names_none() -> None:
    assert to_plain(trajectory(step(reward=0.0), step("answer", reward=0.5)))["reward"] == 0.5
    assert to_plain(trajectory())["reward"] is None


def test_a_failed_trajectory_has_no_reward_and_is_crashed() -> None:
    cases: list[Trajectory] = [
        trajectory(),
        trajectory(step(None)),
        trajectory(*[step(reward=1.0)] * 12),
        trajectory(step("answer", reward=1.0)),
        trajectory(full_step()),
    ]
    for partial in cases:
        plain = failed_to_plain(partial, LOST)
        assert plain["outcome"] == "failed"
        assert plain["failure"]["kind"] == "browser"
        assert plain["reward"] is None
        assert all(one["reward"] is None for one in plain["steps"])
        assert calculate_rollout_metrics([plain]).crashed == 1
        assert calculate_rollout_metrics([from_plain(plain)]).crashed == 1


def test_the_steps_of_a_failed_trajectory_are_kept() -> None:
    partial = trajectory(step(), step("type"))
    keys = [
        one["action"] and one["action"]["key"] for one in failed_to_plain(partial, LOST)["steps"]
    ]
    assert keys == ["click", "type", None]
    broken = trajectory(step(), step(None))
    assert len(failed_to_plain(broken, LOST)["steps"]) == 2


def test_a_row_with_a_number_out_of_range_is_no_obstacle() -> None:
    odd = trajectory(task=msgspec.Raw(b'{"task_name": "Buy", "limit": 1e999}'))
    assert to_plain(odd)["task"] == {"task_name": "Buy", "limit": None}


def test_what_is_no_trajectory_is_refused() -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"task_id": None}, "task_id"),
        ({"steps": [{}]}, "observation"),
        ({"steps": 3}, "steps"),
        ({"task": {"bad": object()}}, "object"),
        ({"task": {"bad": "\ud800"}}, "surrogates"),
    ]
    for change, named in cases:
        with pytest.raises(TrajectoryError, match=named):
            from_plain({**to_plain(full_trajectory()), **change})
