from typing import Any

import pytest
from omegaconf import OmegaConf

from rollgym.store import RefusedError
from webgym.models.judge_settings import JudgeSettings, Purpose

CONFIG: dict[str, Any] = {"model": "judge-7b", "base_url": "http://judge.test:8000"}


def read(**config: Any) -> JudgeSettings:
    settings = JudgeSettings.of({**CONFIG, **config})
    assert settings is not None
    return settings


def test_no_configuration_means_no_judge() -> None:
    cases: list[object] = [None, {}, OmegaConf.create({})]
    for nothing in cases:
        assert JudgeSettings.of(nothing) is None


def test_top_level_settings_apply_to_every_purpose() -> None:
    settings = read(temperature=0.5)
    assert [settings.purposes[purpose].model for purpose in Purpose] == ["judge-7b"] * 3
    assert len({each.temperature for each in settings.purposes.values()}) == 1
    assert settings.purposes[Purpose.EVALUATION].endpoints()[0].base_url.endswith(":8000/v1")


def test_a_purpose_may_say_otherwise() -> None:
    settings = read(
        temperature=0.5,
        keypoint_detection={"model": "small", "temperature": 0.0, "max_tokens": 99},
        blocking_detection=None,
    )
    keypoint = settings.purposes[Purpose.KEYPOINT_DETECTION]
    assert (keypoint.model, keypoint.base_url) == ("small", CONFIG["base_url"])
    assert keypoint.params() == {"temperature": 0.0, "max_tokens": 99}
    assert settings.purposes[Purpose.EVALUATION].model == "judge-7b"
    assert settings.purposes[Purpose.BLOCKING_DETECTION].temperature == 0.5


def test_a_node_of_hydra_is_read_like_a_dictionary() -> None:
    node = OmegaConf.create({"name": "judge-7b", "openai_config": {**CONFIG, "model": "${name}"}})
    assert JudgeSettings.of(node.openai_config) == JudgeSettings.of(CONFIG)


def test_several_endpoints_may_be_named_with_the_variable_of_their_key() -> None:
    settings = read(base_url=["http://a", "http://b"], openai_api_key_env_var="JUDGE_KEY")
    endpoints = settings.purposes[Purpose.EVALUATION].endpoints()
    assert [(each.base_url, each.key_variable) for each in endpoints] == [
        ("http://a/v1", "JUDGE_KEY"),
        ("http://b/v1", "JUDGE_KEY"),
    ]


def test_invalid_settings_are_rejected_with_their_key() -> None:
    cases: list[tuple[dict[str, object], str]] = [
        ({"modle": "x"}, "openai_config.modle: unknown key; did you mean openai_config.model?"),
        (
            {"evaluation": {"temprature": 1}},
            "openai_config.evaluation: temprature: unknown key; did you mean temperature?",
        ),
        ({"evaluation": "x"}, "openai_config.evaluation: input should be a valid dictionary"),
        ({"keypoint_detecton": {}}, "did you mean openai_config.keypoint_detection?"),
        ({"temperature": -1}, "openai_config.temperature: input should be greater than"),
        ({"timeout": 0}, "openai_config.timeout: input should be greater than 0, not 0"),
        ({"max_screenshots": 0}, "openai_config.max_screenshots"),
        ({"model": ""}, "openai_config.model"),
    ]
    for config, complaint in cases:
        with pytest.raises(RefusedError) as caught:
            read(**config)
        assert complaint in str(caught.value)


def test_max_completion_tokens_replaces_max_tokens_and_null_is_not_sent() -> None:
    settings = read(max_completion_tokens=10, temperature=None, reasoning_effort="low")
    params = settings.purposes[Purpose.EVALUATION].params(room=2)
    assert params == {"max_completion_tokens": 20, "reasoning_effort": "low"}
