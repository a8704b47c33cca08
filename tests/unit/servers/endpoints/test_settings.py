"""What may be said about endpoints and pools."""

from typing import Any

import pytest
from pydantic import SecretStr, TypeAdapter, ValidationError

from rollgym.servers.endpoints import (
    BaseUrl,
    EndpointPoolSettings,
    EndpointSettings,
    endpoint_settings,
)
from tests.cases import for_each

URL = "http://127.0.0.1:8000/v1"


def test_a_base_url_is_one_url_or_a_list_of_urls_and_mappings() -> None:
    read = TypeAdapter[Any](BaseUrl).validate_python
    key = SecretStr("common-key")

    (one,) = endpoint_settings(read(URL), key, max_concurrency=4)
    assert (one.base_url, one.api_key, one.max_concurrency) == (URL, key, 4)

    mixed = [URL, {"base_url": "https://b.test/v1", "api_key": "own-key", "weight": 2}]
    first, second = endpoint_settings(read(mixed), key)
    assert (first.api_key, first.weight) == (key, 1.0)
    assert (second.api_key, second.weight) == (SecretStr("own-key"), 2.0)


@for_each("named", [[], "127.0.0.1:8000", [URL, "localhost"], [{"url": URL}]])
def test_a_list_of_endpoints_that_cannot_be_used_is_refused_at_once(named: object) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter[Any](BaseUrl).validate_python(named)


@for_each(
    ("url", "why"),
    [
        ("127.0.0.1:8000", "not an http"),
        ("ftp://host/v1", "not an http"),
        ("http:///v1", "URL"),
        ("http://host:99999/v1", "URL"),
        ("http://user:secret@host/v1", "API key"),
        ("", "not an http"),
    ],
)
def test_a_base_url_that_cannot_be_used_is_refused_with_the_reason(url: str, why: str) -> None:
    with pytest.raises(ValidationError, match=why) as refusal:
        EndpointSettings(base_url=url)
    assert "secret" not in str(refusal.value)


@for_each("key", ["sk-secret\n", "sk-secret key", "sk-secrét"])
def test_a_key_that_no_header_can_carry_is_refused_without_showing_it(key: str) -> None:
    with pytest.raises(ValidationError, match="API key") as refusal:
        EndpointSettings(base_url=URL, api_key=SecretStr(key))
    assert "sk-" not in str(refusal.value)


def test_a_key_is_not_shown_by_its_settings_and_an_empty_one_is_none() -> None:
    assert "sk-" not in repr(EndpointSettings(base_url=URL, api_key=SecretStr("sk-secret")))
    assert EndpointSettings(base_url=URL, api_key=SecretStr("")).api_key is None


@for_each(
    "change",
    [
        {"request_timeout": 0},
        {"call_timeout": float("inf")},
        {"max_retries": -1},
        {"failures_before_rest": 0},
        {"backoff_initial": 9.0, "backoff_maximum": 1.0},
        {"rest_initial": 90.0},
        {"max_retrys": 3},
    ],
)
def test_a_pool_without_sensible_bounds_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=next(iter(change))):
        EndpointPoolSettings(**change)
