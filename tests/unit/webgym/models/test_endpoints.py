"""The model endpoints of a run, however they are written."""

import msgspec
import pytest
from omegaconf import OmegaConf

from webgym.models.endpoints import (
    EndpointError,
    FoundryEndpoint,
    read_endpoints,
)
from webgym.settings import WebSettingsError


def urls(value: object) -> list[str]:
    return [endpoint.base_url for endpoint in read_endpoints(value)]


def test_a_url_gets_the_version_that_it_lacks() -> None:
    cases: list[tuple[str, str]] = [
        ("http://localhost:8999", "http://localhost:8999/v1"),
        ("http://localhost:8999/", "http://localhost:8999/v1"),
        ("http://localhost:8999/v1", "http://localhost:8999/v1"),
        ("http://localhost:8999/v1/", "http://localhost:8999/v1"),
        ("https://models.example/team/v1", "https://models.example/team/v1"),
        ("https://models.example/team", "https://models.example/team/v1"),
        ("https://models.example/v1beta/openai", "https://models.example/v1beta/openai"),
        (
            "https://gateway.example/deployments/a?api-version=1",
            "https://gateway.example/deployments/a?api-version=1",
        ),
    ]
    for written, base_url in cases:
        assert urls(written) == [base_url]


def test_endpoints_are_the_same_however_they_are_written() -> None:
    cases: list[object] = [
        "http://a:1, http://b:2/v1,",
        ["http://a:1", "http://b:2"],
        ("http://a:1", {"base_url": "http://b:2"}),
        [{"base_url": "http://a:1"}, FoundryEndpoint(base_url="http://b:2")],
        OmegaConf.create(["http://a:1", {"base_url": "http://b:2"}]),
        OmegaConf.create({"first": "http://a:1", "all": ["${first}", "http://b:2"]}).all,
    ]
    for written in cases:
        assert urls(written) == ["http://a:1/v1", "http://b:2/v1"]


def test_an_endpoint_keeps_all_that_is_said_about_it() -> None:
    (endpoint,) = read_endpoints(
        {
            "name": "large",
            "base_url": "http://a:1",
            "key_variable": "LARGE_KEY",
            "weight": 2,
            "max_concurrency": 8,
        }
    )
    assert endpoint == FoundryEndpoint(
        name="large",
        base_url="http://a:1/v1",
        key_variable="LARGE_KEY",
        weight=2.0,
        max_concurrency=8,
    )


def test_an_endpoint_without_a_name_is_called_by_its_address_without_the_query() -> None:
    (endpoint,) = read_endpoints("https://gateway.example/a?key=secret")
    assert endpoint.name == "https://gateway.example/a"


def test_what_is_no_endpoint_is_refused_with_its_place_and_a_remedy() -> None:
    cases: list[tuple[object, str]] = [
        (None, "no model endpoint is named"),
        ("", "no model endpoint is named"),
        ([], "no model endpoint is named"),
        (8999, "8999 is not a model endpoint: give a URL"),
        ("localhost:8999", "model endpoint 1: 'localhost:8999' is not the URL of a server"),
        (["http://a:1", "ftp://b"], "model endpoint 2: 'ftp://b' is not the URL"),
        (["http://a:1", 5], "model endpoint 2 is 5: give a URL or a mapping with base_url"),
        ([{"weight": 1}], "model endpoint 1: Object missing required field `base_url`"),
        ([{"base_url": "http://a", "wieght": 2}], "unknown field 'wieght': did you mean weight?"),
        ([{"base_url": "http://a", "weight": 0}], "`$.weight`"),
        ([{"base_url": "http://a", "max_concurrency": 0}], "`$.max_concurrency`"),
        ("http://a:1,http://a:1/v1", "is given twice"),
        (OmegaConf.create(["${nowhere}"]), "cannot be resolved"),
    ]
    for written, says in cases:
        with pytest.raises(WebSettingsError) as refused:
            read_endpoints(written)
        assert says in str(refused.value)


def test_credentials_in_a_url_are_refused_and_not_repeated() -> None:
    with pytest.raises(EndpointError, match="key_variable") as refused:
        read_endpoints("http://me:secret@models.example")
    assert "secret" not in str(refused.value)


def test_a_key_in_the_place_of_its_variable_is_refused_and_not_repeated() -> None:
    with pytest.raises(EndpointError, match="environment variable") as refused:
        read_endpoints({"base_url": "http://a:1", "key_variable": "sk-0123-456789"})
    assert "0123" not in str(refused.value)


def test_the_key_comes_from_the_environment_when_it_is_needed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (endpoint,) = read_endpoints("http://a:1", key_variable="MODEL_KEY")
    monkeypatch.setenv("MODEL_KEY", " sk-0123456789 ")
    key = endpoint.settings().api_key
    assert key is not None
    assert key.get_secret_value() == "sk-0123456789"
    assert "sk-0123456789" not in repr(endpoint) + str(msgspec.to_builtins(endpoint))


def test_the_variable_of_an_endpoint_goes_before_the_common_one() -> None:
    own = {"base_url": "http://a:1", "key_variable": "OWN"}
    endpoints = read_endpoints([own, "http://b:2"], key_variable="COMMON")
    assert [endpoint.key_variable for endpoint in endpoints] == ["OWN", "COMMON"]


def test_a_key_that_is_not_there_is_missed_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MODEL_KEY", raising=False)
    (endpoint,) = read_endpoints("http://a:1", key_variable="MODEL_KEY")
    with pytest.raises(EndpointError, match="MODEL_KEY, which is not set: export MODEL_KEY="):
        endpoint.settings()


def test_a_key_that_no_header_can_carry_is_refused_and_not_repeated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MODEL_KEY", "sk one\ntwo")
    (endpoint,) = read_endpoints("http://a:1", key_variable="MODEL_KEY")
    with pytest.raises(EndpointError, match="HTTP header") as refused:
        endpoint.settings()
    assert "sk one" not in str(refused.value)


def test_without_a_variable_no_key_is_sent() -> None:
    (endpoint,) = read_endpoints({"base_url": "http://a:1", "weight": 3, "max_concurrency": 2})
    settings = endpoint.settings()
    assert (settings.base_url, settings.api_key) == ("http://a:1/v1", None)
    assert (settings.weight, settings.max_concurrency) == (3.0, 2)
