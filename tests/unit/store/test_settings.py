"""What a setting means to a run: part of its identity, a secret, or neither."""

from typing import Annotated, Any

import msgspec
import pytest
from pydantic import BaseModel, ConfigDict, Field, SecretStr

from rollgym.store import Setting, hide_secrets, settings_identity

LEFT_OUT_BY_NAME = """
    api_key policy_api_key OPENAI_API_KEY x-api-key Authorization password token cpu_cluster_token
    base_url policy_base_url vllm_server_url host host_ip master_port endpoints
    num_samples_in_parallel num_workers server_size concurrency request_timeout max_retries
"""
KEPT = """
    max_output_tokens eos_token temperature seed report max_steps keyword curl model tokenizer
    accept_cookies key_metrics sort_keys_by
"""


class Endpoint(BaseModel):
    url: Annotated[str, Setting.ADDRESS]
    key: SecretStr | None = None
    model: str = ""


class Judge(BaseModel):
    model_config = ConfigDict(extra="allow")

    prompt: str
    workers: int = 1
    word: Annotated[str, Setting.SECRET] = ""
    wait: Annotated[float, Setting.TIMING] = Field(default=1.0, gt=0)
    endpoints: list[str | Endpoint] | None = None
    extra: dict[str, Any] = {}
    renamed: Annotated[int, Setting.NOTE] = Field(default=0, alias="called")


class Sampling(msgspec.Struct, rename={"top": "top_p"}):
    temperature: float = 1.0
    top: Annotated[float, Setting.TIMING] = 1.0
    judge: Judge | None = None


def identity(settings: dict[str, Any], declared: Any = None) -> dict[str, Any]:
    return settings_identity(settings, declared).values


def test_settings_that_no_class_declares_are_judged_by_their_names() -> None:
    for name in LEFT_OUT_BY_NAME.split():
        assert identity({name: "x", "kept": 1}) == {"kept": 1}, name
        assert identity({"deep": [{name: 7}], "kept": 1}) == {"kept": 1}, name
    for name in KEPT.split():
        assert identity({name: "x"}) == {name: "x"}, name
    addresses = {"judge": "https://judge.example/v1", "socket": "unix:///run/model"}
    others = {"note": "see https://x y", "model": "s3://checkpoints/step-100"}
    assert identity(addresses | others) == others


def test_a_declared_setting_belongs_to_the_identity_unless_it_is_marked() -> None:
    given = {"prompt": "p", "workers": 3, "word": "w", "wait": 2, "called": 1, "renamed": 2}
    found = settings_identity(given, Judge)
    assert found.values == {"prompt": "p", "workers": 3, "renamed": 2}
    assert found.left_out == {"word", "wait", "called"}


def test_further_settings_of_a_known_class_belong_to_the_identity() -> None:
    given = {"prompt": "p", "max_retries": 5, "judge_endpoint": "https://judge/v1", "api_key": "k"}
    kept = {"prompt": "p", "max_retries": 5, "judge_endpoint": "https://judge/v1"}
    assert identity(given, Judge) == kept
    assert settings_identity(given, Judge, complete=False).values == {"prompt": "p"}


def test_marks_are_found_inside_lists_unions_and_nested_classes() -> None:
    endpoint = {"url": "x", "key": "k", "model": "m"}
    given = {"endpoints": ["http://plain/v1", endpoint], "extra": {"base_url": "http://x"}}
    assert identity(given, Judge) == {
        "endpoints[0]": "http://plain/v1",
        "endpoints[1].model": "m",
        "extra.base_url": "http://x",
    }


def test_a_credential_without_a_mark_is_left_out_by_its_type_or_its_name() -> None:
    given = {"extra": {"api_key": "k", "header": "Bearer abc"}, "endpoints": [{"key": "k"}]}
    assert identity(given, Judge) == {"extra.header": "***"}


def test_structs_and_models_may_stand_in_a_configuration() -> None:
    sampling = Sampling(0.5, judge=Judge(prompt="p", word="w"))
    assert identity({"sampling": sampling, "port": 1}) == {
        "sampling.temperature": 0.5,
        "sampling.judge.prompt": "p",
        "sampling.judge.workers": 1,
        "sampling.judge.endpoints": None,
        "sampling.judge.extra": {},
    }


def test_what_was_divided_already_is_taken_as_it_is() -> None:
    inner = settings_identity({"workers": 1, "prompt": "p", "wait": 3}, Judge)
    found = settings_identity({"servers": {"judge": inner}})
    assert found.values == {"servers.judge.workers": 1, "servers.judge.prompt": "p"}
    assert found.left_out == {"servers.judge.wait"}


def test_equal_settings_are_equal_in_any_order_and_type_of_container() -> None:
    one = identity({"a": (1, 2), "b": {"x": 1, "y": 2}})
    assert one == identity({"b": {"y": 2, "x": 1}, "a": [1, 2]})
    assert identity({"stop": [], "extra": {}}) == {"stop": [], "extra": {}}


def test_a_value_that_json_cannot_hold_is_rejected() -> None:
    with pytest.raises(TypeError):
        settings_identity({"model": object()})


def test_secrets_are_hidden_by_mark_type_name_and_shape() -> None:
    given = {
        "prompt": "uses sk-abcdefgh123",
        "word": "open sesame",
        "wait": 2,
        "endpoints": [{"url": "http://me:pw@host/v1", "key": "k", "model": "m"}],
        "extra": {"api_keys": ["a", "b"], "X-Custom": "Bearer abc.def", "hf_token": "t"},
    }
    assert hide_secrets(given, Judge) == {
        "prompt": "uses ***",
        "word": "***",
        "wait": 2,
        "endpoints": [{"url": "http://***@host/v1", "key": "***", "model": "m"}],
        "extra": {"api_keys": "***", "X-Custom": "***", "hf_token": "***"},
    }
    assert given["word"] == "open sesame"


def test_names_of_credentials_are_recognised() -> None:
    names = "api_key OPENAI-API-KEY password client_secret token hf_token Authorization access_key"
    for name in names.split():
        assert hide_secrets({name: "value"}) == {name: "***"}, name
    for name in KEPT.split():
        assert hide_secrets({name: "value"}) == {name: "value"}, name
    assert hide_secrets({"api_key": None, "password": ""}) == {"api_key": None, "password": ""}
