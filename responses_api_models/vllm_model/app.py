"""vLLM behind the Responses API.

vLLM is asked over its chat completions endpoint, the one place where it returns the exact tokens
together with parsed tool calls and reasoning. What comes in as Responses is converted, sent, and
the answer converted back; a request for a chat completion is passed through.
"""

from typing import Any

import msgspec
from pydantic import Field

from responses_api_models.vllm_model.history import acceptable
from rollgym.records import ModelMalformedError, ModelRequestError, Row
from rollgym.servers import EndpointModelServer, ServerConfig, ServerDirectory
from rollgym.servers.endpoints import (
    ApiKey,
    BaseUrl,
    EndpointPool,
    MaxConcurrency,
    PoolSettings,
    endpoint_settings,
)
from rollgym.servers.responses import JsonObject, chat_request, response_from_chat

_OBJECT = msgspec.json.Decoder(dict[str, Any])


class VllmModelConfig(ServerConfig):
    """Settings of a vLLM model server.

    - `base_url`: one URL or a list of them, each usually ending in `/v1`. Calls are spread.
    - `model`: the name vLLM serves the model under; it replaces whatever a request asks for.
    - `return_token_id_information`: put the exact tokens and their log probabilities onto the last
      output item of every answer.
    - `uses_reasoning_parser`: vLLM runs with `--reasoning-parser`. Without, reasoning is taken from
      the `<think>` tags of the text, and written back into them.
    - `extra_body`: parameters for vLLM, for requests that do not set them themselves.
    - `max_concurrency`: requests in flight at each endpoint. `pool`: timeouts and retries.
    """

    base_url: BaseUrl
    api_key: ApiKey = None
    model: str
    return_token_id_information: bool = False
    uses_reasoning_parser: bool = True
    extra_body: dict[str, Any] = Field(default_factory=dict)
    max_concurrency: MaxConcurrency = None
    pool: PoolSettings = PoolSettings()


class VllmModel(EndpointModelServer):
    """A model served by vLLM, at one or several endpoints."""

    config: VllmModelConfig

    def __init__(
        self, name: str, config: VllmModelConfig, directory: ServerDirectory | None = None
    ) -> None:
        endpoints = endpoint_settings(config.base_url, config.api_key, config.max_concurrency)
        super().__init__(name, config, directory, EndpointPool(endpoints, config.pool))
        self._think_tags = not config.uses_reasoning_parser
        # Set last, so that nothing a request says can change them.
        self._fixed: JsonObject = {"model": config.model}
        if config.return_token_id_information:
            self._fixed |= {"return_token_ids": True, "logprobs": True}

    async def responses(self, params: Row) -> bytes:
        asked = _decode(params.raw, ModelRequestError, "the request")
        answer = await self._complete(chat_request(asked, think_tags=self._think_tags))
        completion = _decode(answer, ModelMalformedError, "vLLM's answer")
        response = response_from_chat(completion, asked, think_tags=self._think_tags)
        if self.config.return_token_id_information:
            _check_tokens(response["output"][-1])
        return msgspec.json.encode(response)

    async def chat_completions(self, params: Row) -> bytes:
        return await self._complete(_decode(params.raw, ModelRequestError, "the request"))

    async def _complete(self, request: JsonObject) -> bytes:
        body = {**self.config.extra_body, **request, **self._fixed}
        body["messages"] = acceptable(body.get("messages"))
        return await self.pool.post("/chat/completions", msgspec.json.encode(body))


def _check_tokens(item: JsonObject) -> None:
    """Training data without its tokens is worse than none."""
    wanted = ("prompt_token_ids", "generation_token_ids", "generation_log_probs")
    missing = [name for name in wanted if name not in item]
    if missing:
        raise ModelMalformedError(
            f"vLLM gave no {' and no '.join(missing)}, although return_token_id_information asks "
            "for them: it must be a version that knows `return_token_ids`",
            retryable=False,
        )


def _decode(
    raw: bytes, error: type[ModelRequestError | ModelMalformedError], subject: str
) -> JsonObject:
    try:
        return _OBJECT.decode(raw)
    except (msgspec.DecodeError, RecursionError) as cause:
        raise error(f"{subject} cannot be decoded: {cause}") from cause
