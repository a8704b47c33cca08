"""What is hidden, and what is not."""

import pytest

from rollgym.servers.config import Settings, redacted


@pytest.mark.parametrize(
    "name",
    ["api_key", "openai_api_key", "OPENAI-API-KEY", "password", "client_secret", "token",
     "hf_token", "Authorization", "api_keys", "access_key"],
)  # fmt: skip
def test_a_credential_is_hidden_by_its_name(name: str) -> None:
    assert redacted({name: "value"}) == {name: "***"}


@pytest.mark.parametrize(
    "name", ["max_output_tokens", "tokenizer", "keyword", "model", "key_metrics", "sort_keys_by"]
)
def test_a_setting_that_only_sounds_alike_is_shown(name: str) -> None:
    assert redacted({name: "value"}) == {name: "value"}


def test_credentials_are_hidden_wherever_they_are_nested() -> None:
    settings: Settings = {
        "endpoints": [{"base_url": "http://me:pw@host/v1", "api_key": "k"}],
        "headers": {"X-Custom": "Bearer abc.def", "note": "uses sk-abcdefgh123"},
        "api_keys": ["a", "b"],
    }
    assert redacted(settings) == {
        "endpoints": [{"base_url": "http://***@host/v1", "api_key": "***"}],
        "headers": {"X-Custom": "***", "note": "uses ***"},
        "api_keys": "***",
    }
    assert settings["api_keys"] == ["a", "b"]


def test_an_absent_key_is_shown_as_absent() -> None:
    assert redacted({"api_key": None, "other_api_key": ""}) == {
        "api_key": None,
        "other_api_key": "",
    }
