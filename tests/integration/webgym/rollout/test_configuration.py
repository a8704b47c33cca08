"""Putting a configuration together from files and overrides."""

import os
from pathlib import Path

import pytest

from webgym.rollout.configuration import compose_config
from webgym.rollout.settings import WebRolloutSettings
from webgym.settings import WebSettingsError

CONFIGS = Path(__file__).parents[4] / "scripts" / "config"
OWN = """
defaults:
  - rollout_test
  - _self_
save_path: results/mine
env_config:
  server_size: lots
  sever_size: 3
"""


def test_a_config_of_ones_own_builds_on_ours_and_is_named_in_messages(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(OWN)
    found = compose_config(CONFIGS, "mine", [], tmp_path)
    assert found.values["env_config"]["split"] == "test"
    with pytest.raises(WebSettingsError) as caught:
        WebRolloutSettings.of(found.values, found.origin)
    assert str(caught.value).count(str(tmp_path / "mine.yaml")) == 2


def test_a_config_that_is_nested_too_deeply_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("env_config: " + "[" * 500 + "]" * 500)
    with pytest.raises(WebSettingsError, match="config 'mine': it is nested too deeply"):
        compose_config(CONFIGS, "mine", [], tmp_path)


def test_a_folder_of_ones_own_does_not_hide_our_configs(tmp_path: Path) -> None:
    found = compose_config(CONFIGS, "rollout_train", [], tmp_path)
    assert found.values["env_config"]["split"] == "train"


def test_the_last_file_that_has_a_key_is_its_origin() -> None:
    found = compose_config(CONFIGS, "rollout_test", ["seed=1", "policy_config={top_p: 0.5}"])
    assert found.origin(("env_config", "split")).endswith("rollout_test.yaml")
    assert found.origin(("env_config", "server_size")).endswith("rollout.yaml")
    assert found.origin(("policy_config", "top_p")) == "command line"
    assert found.origin(("seed",)) == "command line"
    assert found.origin(("no", "such")) == ""


def test_mappings_are_merged_and_everything_else_is_replaced() -> None:
    overrides = ["env_config.http_pools={execute: 3}", "embedded=[sites]"]
    found = compose_config(CONFIGS, "demo", overrides).values
    assert found["env_config"]["http_pools"]["execute"] == 3
    assert found["env_config"]["http_pools"]["allocate"] == 32
    assert found["embedded"] == ["sites"]


@pytest.mark.parametrize(
    "written", ['{"1-3": 2, hard: 1}', "{1-3: 2, hard: 1}", '{"1-3":2,"hard":1}']
)
@pytest.mark.parametrize("whole", [False, True], ids=["alone", "within its section"])
def test_weights_take_the_place_of_those_in_the_files(written: str, whole: bool) -> None:
    key = "env_config.difficulty_ratio"
    override = f"env_config={{difficulty_ratio: {written}}}" if whole else f"{key}={written}"
    found = compose_config(CONFIGS, "demo", [override])
    assert found.values["env_config"]["difficulty_ratio"] == {"1-3": 2, "hard": 1}
    assert found.values["env_config"]["server_size"] == 6
    assert found.origin(("env_config", "difficulty_ratio")) == "command line"


def test_steps_take_the_place_of_those_in_the_files() -> None:
    overrides = ["save_path=x", 'env_config.train_difficulty_max_steps={"hard": 3}']
    values = compose_config(CONFIGS, "rollout", overrides).values
    assert values["env_config"]["train_difficulty_max_steps"] == {"hard": 3}
    steps = WebRolloutSettings.of(values).env_config.train_difficulty_max_steps
    assert steps.plain == {"easy": 10, "medium": 20, "hard": 3}


def test_a_key_may_be_left_out_also_one_that_is_null() -> None:
    cases: list[str] = ["~openai_config", "~env_config.sites_url", "~seed=0"]
    for override in cases:
        node: object = compose_config(CONFIGS, "rollout", [override]).values
        for name in override.strip("~").partition("=")[0].split("."):
            assert isinstance(node, dict)
            parent, node = node, node.get(name)
        assert name not in parent


def test_values_may_refer_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EXPERIMENT", "seven")
    overrides = ["save_path=results/${oc.env:EXPERIMENT}", "tracker_config.name=${save_path}"]
    found = compose_config(CONFIGS, "rollout", overrides).values
    assert found["save_path"] == found["tracker_config"]["name"] == "results/seven"


def test_what_cannot_be_put_together_is_refused_in_a_line() -> None:
    cases: list[tuple[str, list[str], str]] = [
        ("rollout_trian", [], "did you mean rollout_train?"),
        ("nothing", [], "the configs are default, demo, rollout, rollout_test, rollout_train"),
        ("rollout", ["seed=1,2"], 'a list in brackets: "seed=[1,2]"'),
        ("rollout", ["seed"], "this is not an override"),
        ("rollout", ["seed=" + "[" * 500 + "]" * 500], "this is not an override"),
        ("rollout", ["~nothing"], "~nothing: there is no such key to remove"),
        ("rollout", ["~env_config.no.such"], "there is no such key to remove"),
        ("rollout", ["~seed=3"], "~seed=3: its value is 0"),
        ("rollout", ['env_config.difficulty_ratio={"1-3": 2'], "this is not an override"),
        ("rollout", ["save_path=${nothing}"], "nothing"),
    ]
    for name, overrides, words in cases:
        with pytest.raises(WebSettingsError) as caught:
            compose_config(CONFIGS, name, overrides)
        assert words in str(caught.value)


def test_nothing_is_made_and_nobody_is_moved(tmp_path: Path) -> None:
    before = Path.cwd()
    os.chdir(tmp_path)
    try:
        compose_config(CONFIGS, "rollout_train", ["save_path=x"])
        assert Path.cwd() == tmp_path
        assert not list(tmp_path.iterdir())
    finally:
        os.chdir(before)
