"""Reading configurations: what is right is taken, what is wrong is named with its remedy."""

import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from webgym.browser.contract.profile import DEFAULT_PROFILE, HttpCredentials
from webgym.models.judge_settings import Purpose
from webgym.rollout.configuration import compose_config
from webgym.rollout.session_settings import SessionSettings
from webgym.rollout.settings import WebRolloutSettings
from webgym.settings import MISSING, WebSettingsError, keys_of

CONFIGS = Path(__file__).parents[4] / "scripts" / "config"
NEEDED = ["save_path=results/x", "data_path=data"]


def composed(*overrides: str, name: str = "rollout_train") -> WebRolloutSettings:
    found = compose_config(CONFIGS, name, [*NEEDED, *overrides])
    return WebRolloutSettings.of(found.values, found.origin)


def test_training_tasks_may_have_several_rollouts() -> None:
    grouped = "env_config.rollouts_per_task=4"
    assert composed(grouped).env_config.repeats == 4
    assert composed(grouped, name="rollout_test").env_config.repeats == 1


def refusal(*overrides: str, name: str = "rollout_train") -> str:
    with pytest.raises(WebSettingsError) as caught:
        composed(*overrides, name=name)
    return str(caught.value)


def flat(values: dict[str, Any], path: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    found: dict[tuple[str, ...], Any] = {}
    for key, value in values.items():
        inner = flat(value, (*path, key)) if isinstance(value, dict) and value else None
        found |= inner or {(*path, key): value}
    return found


def test_the_files_have_every_key_with_its_default_and_no_other() -> None:
    values = flat(compose_config(CONFIGS, "rollout", []).values)
    known = {key.path: key.default for key in keys_of(WebRolloutSettings)}
    judge = {path for path in known if path[0] == "openai_config" and len(path) > 1}
    assert values == {path: default for path, default in known.items() if path not in judge}


def test_every_key_in_the_files_has_a_comment() -> None:
    for name in ("default", "rollout"):
        lines = (CONFIGS / f"{name}.yaml").read_text().splitlines()
        for before, line in pairwise(lines):
            if re.match(r" *[a-z_]+:", line) and not line.startswith("defaults:"):
                assert before.lstrip().startswith("#"), f"{name}.yaml: {line}"


def test_every_key_says_what_it_means() -> None:
    assert all(key.description for key in keys_of(WebRolloutSettings))


def test_every_config_can_be_read() -> None:
    cases: list[str] = ["rollout", "rollout_train", "rollout_test", "demo", "small_model"]
    for name in cases:
        assert composed(name=name).save_path == Path("results/x")


def test_train_and_test_differ_in_their_tasks_and_files() -> None:
    train, test = composed().env_config, composed(name="rollout_test").env_config
    assert (train.split, train.tasks_file, train.rollout_size) == ("train", "train.jsonl", 1024)
    assert (test.split, test.tasks_file, test.rollout_size) == ("test", "test.jsonl", -1)
    assert composed("env_config.test_tasks_repeat_times=4").env_config.repeats == 1
    repeated = composed("env_config.test_tasks_repeat_times=4", name="rollout_test")
    assert repeated.env_config.repeats == 4


def test_overrides_set_values_with_and_without_a_plus() -> None:
    cases: list[str] = ["", "+", "++"]
    for sign in cases:
        settings = composed(f"{sign}env_config.server_size=3", f"{sign}seed=7")
        assert (settings.env_config.server_size, settings.seed) == (3, 7)


def test_an_empty_list_of_steps_means_the_defaults() -> None:
    settings = composed("env_config.train_difficulty_max_steps=[]").env_config
    assert settings.train_difficulty_max_steps.plain == {"easy": 10, "medium": 20, "hard": 30}
    assert settings.test_difficulty_max_steps.plain == {"easy": 30, "medium": 50, "hard": 70}


def test_one_difficulty_can_be_given_alone() -> None:
    settings = composed("env_config.train_difficulty_max_steps.easy=3").env_config
    assert settings.train_difficulty_max_steps.plain == {"easy": 3, "medium": 20, "hard": 30}


def test_a_task_may_not_last_longer_than_its_browser() -> None:
    said = refusal("env_config.task_timeout_minutes=60")
    assert "env_config: task_timeout_minutes=60 is longer than a browser session lasts" in said
    assert "instance_lifetime_max=50" in said
    assert "instance_lifetime_max=19" in refusal("env_config.instance_lifetime_max=19")
    both = composed("env_config.task_timeout_minutes=60", "env_config.instance_lifetime_max=60")
    assert both.env_config.task_timeout_minutes == 60


def test_what_runs_again_is_not_left_out_because_most_has_ended() -> None:
    cases: list[str] = ["retry_failed", "retry_omitted"]
    for retry in cases:
        assert composed().completion_threshold == 0.98
        assert composed(f"{retry}=true").completion_threshold == 1


def test_null_is_the_default_where_it_means_nothing_itself() -> None:
    settings = composed(
        "env_config.server_size=null", "openai_config={model: m, temperature: null}"
    )
    assert settings.env_config.server_size == 64
    assert settings.openai_config is not None
    assert settings.openai_config.temperature is None


def test_weights_of_ranks_may_be_written_in_several_ways() -> None:
    cases: list[str] = ["2,1,1", "'2,1,1'", "[2,1,1]", '"2,1,1"']
    for written in cases:
        assert composed(f"env_config.rank_weights={written}").env_config.rank_weights == "2,1,1"


def test_ratios_may_have_keys_that_are_numbers() -> None:
    settings = composed("env_config.difficulty_ratio={1-3: 2, 7: 1}").env_config
    assert settings.difficulty_ratio == {"1-3": 2.0, "7": 1.0}


def test_a_purpose_of_the_judge_overrides_only_what_differs() -> None:
    settings = composed("openai_config.model=m", "openai_config.evaluation.model=better")
    judge = settings.openai_config
    assert judge is not None
    assert judge.purposes[Purpose.EVALUATION].model == "better"
    assert judge.purposes[Purpose.KEYPOINT_DETECTION].model == "m"
    assert composed().openai_config is None


def test_the_agent_keeps_trees_where_the_environment_wants_them() -> None:
    assert "accessibility_tree" not in composed().context
    assert composed("env_config.use_rich_actree=true").context["accessibility_tree"] is True


def test_without_progress_files_are_written_once() -> None:
    settings = composed("env_config.save_traj_progress=false").env_config
    assert settings.save_percent == 100
    assert composed().env_config.save_percent == 25


def test_a_mistake_is_named_with_its_place_and_remedy() -> None:
    cases: list[tuple[str, str]] = [
        ("env_config.sever_size=3", "did you mean env_config.server_size?"),
        ("sede=3", "did you mean seed?"),
        ("policy_config.server_size=3", "did you mean env_config.server_size?"),
        ("+new_key=3", "--help lists all keys"),
        ("env_config.server_size=many", "env_config.server_size: input should be a valid integer"),
        ("env_config.server_size=true", "a number is needed, not True"),
        ("env_config.split=val", "input should be 'train' or 'test', not 'val'"),
        ("env_config.train_tasks_rollout_size=0", "give a number of tasks, or -1 for all, not 0"),
        ("env_config.rank_weights=heavy", "as in \"2,1,1\", not 'heavy'"),
        ("embedded=[browser,browser]", "each server may be named once"),
        ("embedded=[sites,miniwob]", "name one of miniwob and sites, not both"),
        ("embedded=[heuristic]", "`heuristic` was removed"),
        ("env_config.http_pools=3", "a mapping of keys to values is needed, not 3"),
        ("openai_config.base_url=http://x", "openai_config.model is missing"),
    ]
    for override, words in cases:
        message = refusal(override)
        assert words in message
        assert "command line" in message or "is missing" in message


def test_all_mistakes_are_named_at_once() -> None:
    message = refusal("seed=x", "env_config.sever_size=3", "save_path=''")
    assert len(message.splitlines()) == 4


def test_what_has_to_be_given_is_asked_for() -> None:
    with pytest.raises(WebSettingsError, match="save_path is missing: set save_path="):
        WebRolloutSettings.of(compose_config(CONFIGS, "rollout", []).values)
    assert next(keys_of(WebRolloutSettings)).default == MISSING


def test_the_profile_of_sessions_is_read_and_counts_only_where_it_differs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = tmp_path / "state.json"
    state.write_text('{"cookies": [{"name": "a", "value": "b", "domain": "example.com"}]}')
    monkeypatch.setenv("SITE_PASSWORD", "pears")
    given = {"locale": "de-DE", "http_username": "ann", "http_password_env_var": "SITE_PASSWORD"}
    settings = SessionSettings.model_validate(
        {**given, "storage_state": str(state), "proxy": "http://proxy:3128"}
    )
    assert settings.profile.http_credentials == HttpCredentials(username="ann", password="pears")
    assert settings.profile.storage_state.cookies[0].name == "a"
    assert SessionSettings().profile == DEFAULT_PROFILE
    assert SessionSettings().identity == SessionSettings(proxy="http://proxy:3128").identity == {}
    counted = settings.identity
    assert "pears" not in str(counted)
    assert "proxy" not in str(counted)
    state.write_text("{}")
    assert settings.identity != counted
    for wrong in ({"timezone": "Mars"}, {"locale": "!"}, {"storage_state": str(tmp_path / "no")}):
        with pytest.raises(WebSettingsError, match="env_config.session"):
            SessionSettings.model_validate(wrong).profile  # noqa: B018
