"""The model endpoints of a run, each with its name, address, key and limits.

A setting names endpoints in one of several ways, from `http://localhost:8999` to a list of
mappings; `read_endpoints` makes the same typed endpoints of all of them. A key is never written
down: an endpoint names the environment variable that has it, and `settings` reads it when the
connection is made. `rollgym.servers.endpoints` balances the load over the endpoints.
"""

import os
import re
from collections.abc import Iterable, Mapping
from typing import Annotated

import msgspec
from pydantic import SecretStr, ValidationError
from yarl import URL

from rollgym.servers.endpoints import EndpointSettings
from rollgym.suggestions import advice
from webgym.settings import WebSettingsError, plain_value

_VERSION = re.compile(r"v\d+[a-z0-9]*")
_DEFAULT_VERSION = "v1"
_EXAMPLE = "such as http://localhost:8999"


class EndpointError(WebSettingsError):
    """The setting of a model endpoint is not valid."""


class FoundryEndpoint(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One OpenAI-compatible server.

    `key_variable` names the environment variable that has the key; without one no key is sent.
    `weight` is its share of the load beside others; `max_concurrency` bounds its running requests.
    """

    base_url: str
    name: str = ""
    key_variable: str | None = None
    weight: Annotated[float, msgspec.Meta(gt=0)] = 1.0
    max_concurrency: Annotated[int, msgspec.Meta(ge=1)] | None = None

    def settings(self) -> EndpointSettings:
        """The settings for an endpoint pool. Raises EndpointError if the key is not set."""
        try:
            return EndpointSettings(
                base_url=self.base_url,
                api_key=self._key(),
                max_concurrency=self.max_concurrency,
                weight=self.weight,
            )
        except ValidationError as error:
            raise EndpointError(f"{self.name}: {error.errors()[0]['msg']}") from None

    def _key(self) -> SecretStr | None:
        if self.key_variable is None:
            return None
        key = os.environ.get(self.key_variable, "").strip()
        if not key:
            raise EndpointError(
                f"{self.name} takes its key from {self.key_variable}, which is not set: export "
                f"{self.key_variable}=…, or name no variable if the endpoint needs no key"
            )
        return SecretStr(key)


_FIELDS = tuple(field.name for field in msgspec.structs.fields(FoundryEndpoint))


def read_endpoints(
    value: object, *, key_variable: str | None = None
) -> tuple[FoundryEndpoint, ...]:
    """The endpoints that a setting names.

    It may be a URL, several URLs with commas between them, a mapping with the fields of
    FoundryEndpoint, or a list of URLs and mappings; also as a Hydra node. A URL without a version
    gets `/v1`. `key_variable` is the default for endpoints that name none. Raises EndpointError,
    naming the entry, and WebSettingsError if the node refers to a missing value.
    """
    entries = _entries(plain_value(value))
    if not entries:
        raise EndpointError(f"no model endpoint is named: give its URL, {_EXAMPLE}")
    endpoints = [_read(entry, place, key_variable) for place, entry in enumerate(entries, 1)]
    _reject_duplicates(endpoints)
    return tuple(endpoints)


def _entries(value: object) -> list[object]:
    match value:
        case None:
            return []
        case str():
            return [part.strip() for part in value.split(",") if part.strip()]
        case Mapping():
            return [value]
        case list() | tuple():
            return list(value)
        case _:
            raise EndpointError(
                f"{value!r:.100} is not a model endpoint: give a URL, {_EXAMPLE}, or a list of URLs"
            )


def _read(entry: object, place: int, key_variable: str | None) -> FoundryEndpoint:
    where = f"model endpoint {place}"
    match entry:
        case str():
            fields: Mapping[object, object] = {"base_url": entry.strip()}
        case FoundryEndpoint():
            fields = msgspec.structs.asdict(entry)  # type: ignore[assignment]
        case Mapping():
            fields = entry
        case _:
            raise EndpointError(f"{where} is {entry!r:.100}: give a URL or a mapping with base_url")
    _reject_unknown_fields(fields, where)
    try:
        endpoint = msgspec.convert(dict(fields), FoundryEndpoint)
    except msgspec.ValidationError as error:
        raise EndpointError(f"{where}: {error}") from error
    base_url = _versioned_url(endpoint.base_url, where)
    endpoint = msgspec.structs.replace(
        endpoint,
        base_url=base_url,
        name=endpoint.name or str(URL(base_url).with_query(None)),
        key_variable=endpoint.key_variable or key_variable,
    )
    _reject_written_key(endpoint, where)
    return endpoint


def _reject_unknown_fields(fields: Mapping[object, object], where: str) -> None:
    for name in fields:
        if name not in _FIELDS:
            hint = advice(str(name), _FIELDS, f"the fields are {', '.join(_FIELDS)}")
            raise EndpointError(f"{where}: unknown field {str(name)!r:.60}: {hint}")


def _reject_written_key(endpoint: FoundryEndpoint, where: str) -> None:
    """A key in place of a variable's name must not be shown in the error message."""
    variable = endpoint.key_variable
    if variable is not None and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", variable):
        raise EndpointError(
            f"{where}: key_variable is not a name of an environment variable; put the key into a "
            "variable such as MODEL_API_KEY, and give its name"
        )


def _versioned_url(text: str, where: str) -> str:
    """The base URL with its version. A URL with a query belongs to a gateway and is not changed."""
    try:
        url = URL(text)
        is_usable = url.scheme in {"http", "https"} and bool(url.host) and url.user is None
    except ValueError:
        is_usable = False
    if not is_usable:
        shown = re.sub(r"//[^/@]*@", "//", text)
        hint = "; credentials go into the variable of key_variable" if shown != text else ""
        raise EndpointError(f"{where}: {shown!r:.200} is not the URL of a server, {_EXAMPLE}{hint}")
    if url.query_string or any(_VERSION.fullmatch(part) for part in url.parts):
        return text.rstrip("/")
    return str(url / _DEFAULT_VERSION)


def _reject_duplicates(endpoints: Iterable[FoundryEndpoint]) -> None:
    seen: dict[str, str] = {}
    for endpoint in endpoints:
        if endpoint.base_url in seen:
            raise EndpointError(
                f"model endpoint {endpoint.name} is given twice, also as "
                f"{seen[endpoint.base_url]}: give it once, with a weight if it should get "
                "more of the load"
            )
        seen[endpoint.base_url] = endpoint.name
