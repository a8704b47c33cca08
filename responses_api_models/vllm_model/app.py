"""vLLM behind the Responses API.

vLLM is called over its chat completions endpoint, the only one that returns the exact tokens
together with parsed tool calls and reasoning. A Responses request is converted, sent, and the
answer converted back; a request for a chat completion is passed through.

*Messages.* They are sent in a form that vLLM accepts (`ChatForm`): the arguments of every tool call
as an object, and, because most chat templates skip the role `developer`, its messages as `system`,
unless `replace_developer_role_with_system` is false. The rollout itself keeps the original
messages, and its response notes the form.

*Tokens.* With `return_token_id_information`, vLLM and llama.cpp are asked for the tokens that they
read and sampled; with `continue_from_tokens` each turn is sent as tokens, and continues exactly
those of the turn before (`rollgym.servers.exact_tokens`).

*Parameters.* Those of the request come first, then those in its metadata (`extra_body`), then those
of the configuration. `sampling_overrides`, the model and the tokens are set last.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from rollgym.records import ModelRequestError, Row
from rollgym.servers import EndpointModelConfig, EndpointModelServer, ServerDirectory
from rollgym.servers.endpoints import (
    ApiKey,
    BaseUrl,
    EndpointSettings,
    Headers,
    PoolStream,
    endpoint_settings,
)
from rollgym.servers.endpoints.times import note_fallback, note_first_token
from rollgym.servers.episode import TAKES_TOKENS
from rollgym.servers.exact_tokens import (
    ExactTokens,
    completion_reader,
    last_tokens,
    require_tokens,
)
from rollgym.servers.model import decoded
from rollgym.servers.responses import (
    ChatForm,
    JsonObject,
    asks_for_logprobs,
    chat_request,
    metadata_parameters,
    response_from_chat,
)

_WITH_TOKENS = {"return_token_ids": True, "logprobs": True}


class VllmModelConfig(EndpointModelConfig):
    """Settings of a vLLM model server.

    - `base_url`: one URL or a list of them, each usually ending in `/v1`. Calls are balanced.
    - `model`: name of the model at vLLM; it replaces the name in requests.
    - `return_token_id_information`: put the exact tokens and their log probabilities onto the last
      output item of every answer.
    - `continue_from_tokens`: send tokens in place of messages, so that every turn continues the
      exact tokens of the turn before; includes `return_token_id_information`.
    - `uses_reasoning_parser`: whether vLLM runs with `--reasoning-parser`. Without it, reasoning is
      read from the `<think>` tags of the text, and written back into them.
    - `uses_interleaved_reasoning`: whether earlier reasoning is sent back, with a reasoning parser.
    - `replace_developer_role_with_system`: send messages of the role `developer` as `system`.
    - `chat_template_kwargs`: arguments for the chat template; those of a request come before.
    - `sampling_overrides`: parameters that replace those of every request.
    - `continue_final_assistant_message`: let the model continue a final assistant message.
    - `default_headers`: further headers of every request to vLLM.
    """

    base_url: BaseUrl
    api_key: ApiKey = None
    model: str
    return_token_id_information: bool = False
    continue_from_tokens: bool = False
    uses_reasoning_parser: bool = True
    uses_interleaved_reasoning: bool = True
    replace_developer_role_with_system: bool = True
    continue_final_assistant_message: bool = False
    chat_template_kwargs: dict[str, Any] | None = None
    sampling_overrides: dict[str, Any] | None = None
    default_headers: Headers = None

    @property
    def gives_tokens(self) -> bool:
        return self.return_token_id_information or self.continue_from_tokens

    def endpoints(self) -> list[EndpointSettings]:
        return endpoint_settings(
            self.base_url, self.api_key, self.max_concurrency, self.default_headers
        )


class VllmModel(EndpointModelServer):
    """A model served by vLLM, at one or several endpoints."""

    config: VllmModelConfig

    def __init__(
        self, name: str, config: VllmModelConfig, directory: ServerDirectory | None = None
    ) -> None:
        super().__init__(name, config, directory)
        self._tokens = ExactTokens(self.pool)

    async def responses(self, params: Row) -> bytes:
        think_tags, config = not self.config.uses_reasoning_parser, self.config
        asked = decoded(params.raw, ModelRequestError, "the request")
        request = chat_request(asked, think_tags=think_tags)
        body = self._body(request)
        if config.continue_from_tokens:
            completion = await self._tokens.continued(body, last_tokens(asked.get("input")))
        else:
            read = completion_reader(whole=asks_for_logprobs(asked))
            completion = await self._completion(body, read)
        note_first_token(completion)
        note_fallback(completion, config.policy_version_fallback)
        response = response_from_chat(completion, asked, think_tags=think_tags)
        if config.gives_tokens:
            require_tokens(response["output"][-1])
        if config.continue_from_tokens:
            response["output"][-1][TAKES_TOKENS] = True
        arguments = body.get("chat_template_kwargs")
        kept = arguments if isinstance(arguments, dict) else {}
        form = msgspec.structs.replace(self._form, chat_template_kwargs=kept)
        return msgspec.json.encode(form.noted(response, request["messages"]))

    async def chat_completions(self, params: Row) -> bytes:
        return await self._answer(self._body(decoded(params.raw, ModelRequestError, "the request")))

    async def stream_chat_completions(self, params: Row) -> PoolStream | bytes:
        body = self._body(decoded(params.raw, ModelRequestError, "the request"))
        if self.config.gives_tokens:
            body |= _WITH_TOKENS
        return await self.pool.stream("/chat/completions", msgspec.json.encode(body))

    async def _answer(self, body: JsonObject) -> bytes:
        if self.config.gives_tokens:
            return await self._tokens.chat({**body, **_WITH_TOKENS})
        return await self.pool.post("/chat/completions", msgspec.json.encode(body))

    async def _completion(
        self, body: JsonObject, read: Callable[[bytes], JsonObject]
    ) -> JsonObject:
        send = partial(self.pool.post_and_read, "/chat/completions", read=read)
        if self.config.gives_tokens:
            body |= _WITH_TOKENS
            return await self._tokens.completion(body, send)
        return await send(msgspec.json.encode(body))

    @property
    def _form(self) -> ChatForm:
        config = self.config
        return ChatForm(
            developer_as_system=config.replace_developer_role_with_system,
            think_tags=not config.uses_reasoning_parser,
            without_reasoning=not config.uses_interleaved_reasoning,
        )

    def _body(self, request: JsonObject) -> JsonObject:
        config, carried = self.config, metadata_parameters(request.pop("metadata", None))
        body = {**self.extra_parameters, **carried.extra_body, **request}
        if carried.rest:
            body["metadata"] = carried.rest
        asked = body.get("chat_template_kwargs") or {}
        if isinstance(asked, dict):  # vLLM rejects anything else
            arguments = {**(config.chat_template_kwargs or {}), **asked}
            arguments |= carried.chat_template_kwargs
            body |= {"chat_template_kwargs": arguments} if arguments else {}
        body |= {**(config.sampling_overrides or {}), "model": config.model}
        messages = body.get("messages")
        if isinstance(messages, list):  # vLLM rejects those with another structure
            body["messages"] = [*map(self._form.sent, messages)]
            self._continue(body)
        return body

    def _continue(self, body: JsonObject) -> None:
        match body["messages"]:
            case [*_, {"role": "assistant"}] if self.config.continue_final_assistant_message:
                body |= {"continue_final_message": True, "add_generation_prompt": False}
