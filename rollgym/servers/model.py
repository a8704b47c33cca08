"""Model servers: a language model behind the OpenAI Responses API.

A subclass implements `responses`, and `chat_completions` and `models` where it can. Requests and
answers stay JSON, because a model server mostly passes them on.
"""

from collections.abc import Awaitable
from typing import Any

import msgspec

from rollgym.records import ModelRequestError, ModelUnavailableError, Row, RowError
from rollgym.servers.endpoints import EndpointPool, EndpointSettings, MaxConcurrency, PoolSettings
from rollgym.servers.exchange import Answer, Request, json_answer
from rollgym.servers.server import Server, ServerConfig, ServerDirectory, ServerKind


class ModelServer(Server):
    """Base of model servers."""

    kind = ServerKind.MODEL

    def __init__(
        self, name: str, config: ServerConfig, directory: ServerDirectory | None = None
    ) -> None:
        super().__init__(name, config, directory)
        self.route("POST", "/v1/responses", self._answer_responses)
        self.route("POST", "/v1/chat/completions", self._answer_chat_completions)
        self.route("GET", "/v1/models", self._answer_models)

    async def responses(self, params: Row) -> bytes:
        """The Responses object for these parameters. Raises the model errors of `records`."""
        raise NotImplementedError(f"{type(self).__name__} has no responses")

    async def chat_completions(self, params: Row) -> bytes:
        """The chat completion for these parameters."""
        raise ModelRequestError(
            f"{self.name} does not support chat completions; use POST /v1/responses"
        )

    async def models(self) -> bytes:
        """The list of models."""
        return json_answer({"object": "list", "data": []}).body

    async def _answer_responses(self, request: Request) -> Answer:
        return await _answer(self.responses(_params(request.body)))

    async def _answer_chat_completions(self, request: Request) -> Answer:
        return await _answer(self.chat_completions(_params(request.body)))

    async def _answer_models(self, _: Request) -> Answer:
        return await _answer(self.models())


class EndpointModelConfig(ServerConfig):
    """`max_concurrency` bounds the running requests at each endpoint; `pool` has timeouts and
    retries.
    """

    max_concurrency: MaxConcurrency = None
    pool: PoolSettings = PoolSettings()

    def endpoints(self) -> list[EndpointSettings]:
        """The endpoints that the settings name."""
        raise NotImplementedError


class EndpointModelServer(ModelServer):
    """Base of model servers in front of one or several OpenAI-compatible endpoints."""

    def __init__(
        self, name: str, config: EndpointModelConfig, directory: ServerDirectory | None = None
    ) -> None:
        super().__init__(name, config, directory)
        self.pool = EndpointPool(config.endpoints(), config.pool)

    async def close(self) -> None:
        await self.pool.close()

    def health(self) -> dict[str, Any]:
        return {**super().health(), **msgspec.to_builtins(self.pool.report())}

    async def models(self) -> bytes:
        return await self.pool.get("/models")


async def _answer(body: Awaitable[bytes]) -> Answer:
    """A network error means that the model is unavailable; any other untyped error is a bug."""
    try:
        return Answer(200, await body)
    except OSError as error:
        raise ModelUnavailableError(f"{type(error).__name__}: {error}") from error


def _params(body: bytes) -> Row:
    try:
        params = Row.parse(body)
    except RowError as error:
        raise ModelRequestError(f"the request is not a JSON object: {error}") from error
    if bytes(params.fields.get("stream", b"false")) == b"true":
        raise ModelRequestError("streaming is not supported: leave `stream` out")
    return params
