"""Passes requests to endpoints with the OpenAI Responses API.

A request is passed on with the name of the model set, and the answer is returned unchanged, also in
a stream. But
every answer is checked: a failed response, or an answer that is not a response, becomes a typed
error here. An agent would read it as a model that answers nothing.
"""

from typing import Annotated, Any, TypedDict, TypeVar

import msgspec

from rollgym.records import (
    ModelMalformedError,
    ModelRateLimitError,
    ModelRequestError,
    ModelUnavailableError,
    RolloutError,
    Row,
)
from rollgym.records.decoding import JsonDecoder
from rollgym.servers import EndpointModelConfig, EndpointModelServer
from rollgym.servers.endpoints import (
    ApiKey,
    BaseUrl,
    EndpointSettings,
    Headers,
    MaxConcurrency,
    PoolStream,
    endpoint_settings,
)
from rollgym.servers.endpoints.failures import checked_object
from rollgym.servers.endpoints.times import note_fallback
from rollgym.servers.responses import metadata_parameters
from rollgym.store import Setting

T = TypeVar("T")
_FINISHED = frozenset({"completed", "incomplete"})
_FAILURES: dict[str, type[RolloutError]] = {
    "rate_limit_exceeded": ModelRateLimitError,
    "server_error": ModelUnavailableError,
}


class OpenAIModelConfig(EndpointModelConfig):
    """Settings of a server in front of endpoints with the Responses API.

    - `openai_base_url`: one URL or a list of them, each usually ending in `/v1`. Calls are spread.
    - `openai_model`: the model's name there; it replaces whatever a request asks for.
    - `openai_organization`, `openai_default_headers`: further headers of every request.
    - `max_concurrent_requests`: another name for `max_concurrency`.
    - `drop_input_reasoning_items`: leave the reasoning items out of `input`, for endpoints that
      reject their own.
    - `unpack_metadata`: send the parameters in `metadata.extra_body` and
      `metadata.chat_template_kwargs` as parameters. OpenAI rejects those that it does not know.
    """

    openai_base_url: BaseUrl
    openai_api_key: ApiKey = None
    openai_model: str
    openai_organization: Annotated[str | None, Setting.SECRET] = None
    openai_default_headers: Headers = None
    max_concurrent_requests: MaxConcurrency = None
    drop_input_reasoning_items: bool = False
    unpack_metadata: bool = False
    provides: Annotated[Any, Setting.NOTE] = None

    def endpoints(self) -> list[EndpointSettings]:
        headers = dict(self.openai_default_headers or {})
        if self.openai_organization:
            headers.setdefault("OpenAI-Organization", self.openai_organization)
        most = self.max_concurrency or self.max_concurrent_requests
        return endpoint_settings(self.openai_base_url, self.openai_api_key, most, headers)


class OpenAIModel(EndpointModelServer):
    """A model behind one or several endpoints with the Responses API."""

    config: OpenAIModelConfig

    async def responses(self, params: Row) -> bytes:
        body = self._body(params)
        answer, head = await self.pool.post_and_read("/responses", body, _with_head)
        _check_response(answer, head)
        if self.config.policy_version_fallback is not None:
            note_fallback(_VERSION_FIELDS.decode(answer), self.config.policy_version_fallback)
        return answer

    async def chat_completions(self, params: Row) -> bytes:
        answer = await self.pool.post("/chat/completions", self._body(params))
        _decoded(_COMPLETION, answer, "a chat completion with `choices`")
        return answer

    async def stream_responses(self, params: Row) -> PoolStream | bytes:
        answer = await self.pool.stream("/responses", self._body(params))
        if isinstance(answer, bytes):
            _check_response(*_with_head(answer))
        return answer

    async def stream_chat_completions(self, params: Row) -> PoolStream | bytes:
        answer = await self.pool.stream("/chat/completions", self._body(params))
        if isinstance(answer, bytes):
            _decoded(_COMPLETION, answer, "a chat completion with `choices`")
        return answer

    def _body(self, params: Row) -> bytes:
        config, given = self.config, params.fields
        changes: dict[str, Any] = {}
        if extra := self.extra_parameters:
            changes = {name: value for name, value in extra.items() if name not in given}
        if "metadata" in given:
            changes |= self._metadata(params)
        if config.drop_input_reasoning_items:
            items = params.get("input", object)
            if isinstance(items, list):
                changes["input"] = [item for item in items if not _is_reasoning(item)]
        changes["model"] = config.openai_model
        return params.with_fields(changes).raw

    def _metadata(self, params: Row) -> dict[str, Any]:
        """The changes that the metadata of a request asks for; its values become strings."""
        given = params.get("metadata", object)
        if not self.config.unpack_metadata:
            if not isinstance(given, dict) or not any(map(_is_object, given.values())):
                return {}
            return {"metadata": {name: _as_text(value) for name, value in given.items()}}
        carried = metadata_parameters(given)
        changes = {n: value for n, value in carried.extra_body.items() if n not in params.fields}
        if carried.chat_template_kwargs:
            changes["chat_template_kwargs"] = carried.chat_template_kwargs
        return {**changes, "metadata": carried.rest}


def _is_object(value: object) -> bool:
    return isinstance(value, dict)


def _as_text(value: Any) -> Any:
    """The value as the API expects it: an object that should be written as a string is."""
    return msgspec.json.encode(value).decode() if _is_object(value) else value


def _is_reasoning(item: object) -> bool:
    return isinstance(item, dict) and item.get("type") == "reasoning"


class _ResponseError(msgspec.Struct):
    code: str | None = None
    message: str | None = None


class _ResponseHead(msgspec.Struct):
    """The fields that show whether an answer is a Responses object."""

    output: list[msgspec.Raw]
    status: str = "completed"
    error: _ResponseError | None = None


class _CompletionHead(msgspec.Struct):
    choices: list[msgspec.Raw]


class _VersionFields(TypedDict, total=False):
    """What an answer may say of the policy version."""

    model: Any
    system_fingerprint: Any
    policy_version: Any
    policy_versions: Any


_VERSION_FIELDS = JsonDecoder(_VersionFields)
_RESPONSE = JsonDecoder(_ResponseHead)
_COMPLETION = JsonDecoder(_CompletionHead)


def _decoded(decoder: JsonDecoder[T], answer: bytes, wanted: str) -> T:
    try:
        return decoder.decode(answer)
    except msgspec.DecodeError as error:
        # Only the names of its fields: the endpoint may have repeated the headers, with secrets.
        names = ", ".join(list(Row(answer).fields)[:8]) or "none"
        raise ModelMalformedError(
            f"the endpoint's answer is not {wanted} ({error}); its fields: {names}; check that the "
            "endpoint supports this API"
        ) from error


def _with_head(answer: bytes) -> tuple[bytes, _ResponseHead | None]:
    """A JSON object with its head, which is decoded once; None where it is not a response.

    Raises RowError, and UnicodeDecodeError for what is not UTF-8.
    """
    if not answer.isascii():
        answer.decode()
    try:
        return answer, _RESPONSE.decode(answer)
    except msgspec.DecodeError:
        return checked_object(answer), None


def _check_response(answer: bytes, head: _ResponseHead | None) -> None:
    """Raise the typed error of a response that is not completed."""
    response = head or _decoded(_RESPONSE, answer, "a Responses object with a list `output`")
    if response.status in _FINISHED:
        return
    if response.status != "failed":
        raise ModelMalformedError(
            f"the endpoint answered with a response that is {response.status}, not completed; "
            "leave `background` out of the request"
        )
    failure = response.error or _ResponseError()
    kind = _FAILURES.get(failure.code or "", ModelRequestError)
    raise kind(f"the response failed at the endpoint: {failure.code}: {failure.message}")
