"""Passes requests to endpoints with the OpenAI Responses API.

A request is passed on with the name of the model set, and the answer is returned unchanged. But
every answer is checked: a failed response, or an answer that is not a response, becomes a typed
error here. An agent would read it as a model that answers nothing.
"""

from typing import TypeVar

import msgspec

from rollgym.records import (
    ModelMalformedError,
    ModelRateLimitError,
    ModelRequestError,
    ModelUnavailableError,
    RolloutError,
    Row,
)
from rollgym.servers import EndpointModelConfig, EndpointModelServer
from rollgym.servers.endpoints import ApiKey, BaseUrl, EndpointSettings, endpoint_settings

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
    """

    openai_base_url: BaseUrl
    openai_api_key: ApiKey = None
    openai_model: str

    def endpoints(self) -> list[EndpointSettings]:
        return endpoint_settings(self.openai_base_url, self.openai_api_key, self.max_concurrency)


class OpenAIModel(EndpointModelServer):
    """A model behind one or several endpoints with the Responses API."""

    config: OpenAIModelConfig

    async def responses(self, params: Row) -> bytes:
        answer = await self._post("/responses", params)
        _check_response(answer)
        return answer

    async def chat_completions(self, params: Row) -> bytes:
        answer = await self._post("/chat/completions", params)
        _decoded(_COMPLETION, answer, "a chat completion with `choices`")
        return answer

    async def _post(self, path: str, params: Row) -> bytes:
        named = params.with_fields({"model": self.config.openai_model})
        return await self.pool.post(path, named.raw)


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


_RESPONSE = msgspec.json.Decoder(_ResponseHead)
_COMPLETION = msgspec.json.Decoder(_CompletionHead)


def _decoded(decoder: msgspec.json.Decoder[T], answer: bytes, wanted: str) -> T:
    try:
        return decoder.decode(answer)
    except msgspec.DecodeError as error:
        # Only the names of its fields: the endpoint may have repeated the headers, with secrets.
        names = ", ".join(list(Row(answer).fields)[:8]) or "none"
        raise ModelMalformedError(
            f"the endpoint's answer is not {wanted} ({error}); its fields: {names}; check that the "
            "endpoint supports this API"
        ) from error


def _check_response(answer: bytes) -> None:
    """Raise the typed error of a response that is not completed."""
    response = _decoded(_RESPONSE, answer, "a Responses object with a list `output`")
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
