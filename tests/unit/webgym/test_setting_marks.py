"""Marks of web settings agree with what the identity of an iteration has."""

from typing import Any

from rollgym.store import settings_identity
from webgym.models.judge_settings import JudgeSettings, PurposeSettings
from webgym.models.settings import PolicySettings
from webgym.rollout.environment_settings import EnvironmentSettings

JUDGE: dict[str, Any] = {"model": "judge", "max_completion_tokens": 10}
OTHER: dict[str, Any] = {
    "model": "other",
    "base_url": "http://other/v1",
    "openai_api_key_env_var": "OTHER",
    "temperature": 0.5,
    "top_p": 0.5,
    "max_completion_tokens": 20,
    "reasoning_effort": "low",
    "timeout": 1.0,
    "max_retries": 9,
}


def test_a_judge_setting_is_part_of_the_identity_unless_it_is_marked() -> None:
    before = JudgeSettings(**JUDGE).identity
    left_out = settings_identity(OTHER, PurposeSettings).left_out
    assert left_out == {"base_url", "openai_api_key_env_var", "timeout", "max_retries"}
    for name, value in OTHER.items():
        changed = JudgeSettings(**JUDGE | {name: value}).identity != before
        assert changed == (name not in left_out), name


def test_addresses_and_limits_of_an_environment_may_change_when_it_is_resumed() -> None:
    counted = settings_identity(EnvironmentSettings().plain, EnvironmentSettings).values
    assert {path.partition(".")[0] for path in counted} == {
        "split",
        "use_rich_actree",
        "watch_for_blocking",
        "train_tasks",
        "test_tasks",
        "train_tasks_rollout_size",
        "test_tasks_rollout_size",
        "test_tasks_repeat_times",
        "rollouts_per_task",
        "train_tasks_sampler",
        "difficulty_ratio",
        "domain_ratio",
        "train_difficulty_max_steps",
        "test_difficulty_max_steps",
        "multinode_total_workers",
        "rank_weights",
        "session",
    }
    assert settings_identity({"api_key_env_var": "X"}, PolicySettings).values == {}
