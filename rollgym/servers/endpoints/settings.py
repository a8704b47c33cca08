"""Settings of model endpoints and of the pool that uses them."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, model_validator
from yarl import URL

from rollgym.store.settings import Setting

MEBIBYTE = 1 << 20


def _usable_url(text: str) -> str:
    try:
        url = URL(text)
    except ValueError as error:
        raise ValueError(f"not a URL: {error}") from error
    if url.user is not None or url.password is not None:
        raise ValueError("the URL holds credentials; give them as the API key")
    if url.scheme not in {"http", "https"} or not url.host:
        raise ValueError(f"{text!r} is not an http:// or https:// URL with a host")
    return text


def _sendable_key(key: SecretStr | None) -> SecretStr | None:
    text = key.get_secret_value() if key else ""
    if any(not "!" <= character <= "~" for character in text):
        raise ValueError(
            "the API key holds a space, a line break or another character that an HTTP header "
            "cannot carry; check that the key alone was copied"
        )
    return key if text else None


Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False), Setting.TIMING]
ApiKey = Annotated[SecretStr | None, AfterValidator(_sendable_key), Setting.SECRET]
"""A key that an HTTP header can carry; an empty key counts as missing."""
MaxConcurrency = Annotated[int | None, Field(ge=1), Setting.TIMING]
"""The most requests in flight at an endpoint; None for no limit."""


def _sendable_headers(headers: dict[str, str] | None) -> dict[str, str] | None:
    for name, value in (headers or {}).items():
        if not _HEADER_NAME.fullmatch(name) or name.lower() in _OWN_HEADERS:
            raise ValueError(f"{name!r} cannot be set as a header of requests")
        if not _HEADER_VALUE.fullmatch(value):
            raise ValueError(f"the value of the header {name!r} cannot be sent in one line")
    return headers


_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_HEADER_VALUE = re.compile(r"[\x20-\x7e\xa0-\xff]*")
_OWN_HEADERS = frozenset(
    {"accept-encoding", "connection", "content-length", "content-type", "host", "transfer-encoding"}
)


def _header_name(name: str | None) -> str | None:
    if name is not None and not _HEADER_NAME.fullmatch(name):
        raise ValueError(f"{name!r} is not the name of a header")
    return name


HeaderName = Annotated[str | None, AfterValidator(_header_name)]
"""The name of a header of responses; None for none."""
Headers = Annotated[dict[str, str] | None, AfterValidator(_sendable_headers), Setting.SECRET]
"""Further headers of every request. They may hold credentials, so they are never shown."""


class EndpointSettings(BaseModel):
    """One OpenAI-compatible server.

    The paths of the API are added to `base_url`, which usually ends in `/v1`. `weight` is its share
    of the load. `max_concurrency` bounds its requests in flight. `headers` are sent with every
    request.
    """

    # The message that rejects a key must not show it.
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    base_url: Annotated[str, AfterValidator(_usable_url), Setting.ADDRESS]
    api_key: ApiKey = None
    max_concurrency: MaxConcurrency = None
    headers: Headers = None
    weight: Annotated[float, Setting.TIMING] = Field(default=1.0, gt=0, allow_inf_nan=False)


class EndpointPoolSettings(BaseModel):
    """Timeouts, retries and cooldowns of a pool. Times are in seconds.

    - `connect_timeout`, `request_timeout`: timeouts of one try. `call_timeout`: timeout of a call
      with its waits and retries, for calls without a deadline.
    - `max_retries`: further tries of one call; the backoff between them grows from
      `backoff_initial` to `backoff_maximum`, with full jitter.
    - `max_retry_after`: the longest pause that an endpoint may ask for. For a longer one the call
      fails, and its caller decides.
    - `max_rest_wait`: the longest wait while all endpoints are in cooldown. Then the call fails.
    - `failures_before_rest`: the number of failures in a row after which an endpoint is in
      cooldown. Cooldowns grow from `rest_initial` to `rest_maximum`.
    - `max_answer_bytes`: the longest response.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    connect_timeout: Seconds = 10.0
    request_timeout: Seconds = 600.0
    call_timeout: Seconds = 1800.0
    max_retries: Annotated[int, Setting.TIMING] = Field(default=4, ge=0)
    backoff_initial: Seconds = 0.5
    backoff_maximum: Seconds = 8.0
    max_retry_after: Seconds = 60.0
    max_rest_wait: Seconds = 10.0
    failures_before_rest: Annotated[int, Setting.TIMING] = Field(default=3, ge=1)
    rest_initial: Seconds = 1.0
    rest_maximum: Seconds = 30.0
    max_answer_bytes: Annotated[int, Setting.TIMING] = Field(default=64 * MEBIBYTE, gt=0)

    @model_validator(mode="after")
    def _grows(self) -> Self:
        if self.backoff_initial > self.backoff_maximum:
            raise ValueError("backoff_initial is larger than backoff_maximum")
        if self.rest_initial > self.rest_maximum:
            raise ValueError("rest_initial is larger than rest_maximum")
        return self


def _usable_urls(
    base_url: str | list[str | EndpointSettings],
) -> str | list[str | EndpointSettings]:
    named = [base_url] if isinstance(base_url, str) else base_url
    for each in named:
        if isinstance(each, str):
            _usable_url(each)
    if not named:
        raise ValueError("the list names no endpoint")
    return base_url


BaseUrl = Annotated[
    str | list[str | EndpointSettings], AfterValidator(_usable_urls), Setting.ADDRESS
]
"""One URL, or a list of URLs and mappings with the fields of `EndpointSettings`."""


def endpoint_settings(
    base_url: str | Sequence[str | EndpointSettings],
    api_key: SecretStr | None = None,
    max_concurrency: int | None = None,
    headers: Mapping[str, str] | None = None,
) -> list[EndpointSettings]:
    """The endpoints that a `BaseUrl` names.

    Key, concurrency and headers hold for every endpoint that does not have its own. Raises
    pydantic's ValidationError.
    """
    common = {"api_key": api_key, "max_concurrency": max_concurrency, "headers": headers}
    named = [base_url] if isinstance(base_url, str) else base_url
    return [
        EndpointSettings.model_validate(
            {**common, "base_url": each}
            if isinstance(each, str)
            else {**common, **each.model_dump(exclude_none=True)}
        )
        for each in named
    ]


LIMITS = frozenset(("max_concurrency", "max_concurrent_requests"))
"""The names of settings of model servers that hold for a whole run."""


def smallest_limit(settings: object) -> int | None:
    """The smallest limit anywhere in the settings of a model server."""
    return min(_limits(settings), default=None)


def divided_limits(settings: Mapping[str, Any], index: int, count: int) -> dict[str, Any]:
    """The settings of a model server with part `index` of `count` of every limit, at least 1."""
    divided: dict[str, Any] = _divided(settings, index, count)
    return divided


def _limits(value: object) -> Iterator[int]:
    match value:
        case dict():
            for name, part in value.items():
                if name in LIMITS and isinstance(part, int):
                    yield part
                else:
                    yield from _limits(part)
        case list():
            for part in value:
                yield from _limits(part)


def _divided(value: Any, index: int, count: int) -> Any:
    match value:
        case dict():
            return {
                name: max(1, part // count + (index < part % count))
                if name in LIMITS and isinstance(part, int)
                else _divided(part, index, count)
                for name, part in value.items()
            }
        case list():
            return [_divided(part, index, count) for part in value]
    return value
