"""vLLM behind the Responses API.

vLLM is called over its chat completions endpoint, the only one that returns the exact tokens
together with parsed tool calls and reasoning. A Responses request is converted, sent, and the
answer converted back; a request for a chat completion is passed through.

*Messages.* Two things that are correct in a conversation make vLLM reject it or ignore a part:

- vLLM decodes the arguments of earlier tool calls for the chat template, and most versions answer
  400 if they are not a JSON object. A mistake of the model would then end its rollout. Such
  arguments are sent inside an object.
- Most chat templates do not know the role `developer` and skip its messages. They are sent as
  `system`.

The rollout itself keeps the original messages.
"""

from typing import Any

import msgspec
from pydantic import Field

from rollgym.records import ModelMalformedError, ModelRequestError, Row
from rollgym.servers import EndpointModelConfig, EndpointModelServer
from rollgym.servers.endpoints import ApiKey, BaseUrl, EndpointSettings, endpoint_settings
from rollgym.servers.responses import JsonObject, chat_request, response_from_chat

MALFORMED_ARGUMENTS = "malformed_arguments"
_OBJECT = msgspec.json.Decoder(dict[str, Any])
_RAW_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])


class VllmModelConfig(EndpointModelConfig):
    """Settings of a vLLM model server.

    - `base_url`: one URL or a list of them, each usually ending in `/v1`. Calls are balanced.
    - `model`: name of the model at vLLM; it replaces the name in requests.
    - `return_token_id_information`: put the exact tokens and their log probabilities onto the last
      output item of every answer.
    - `uses_reasoning_parser`: whether vLLM runs with `--reasoning-parser`. Without it, reasoning is
      read from the `<think>` tags of the text, and written back into them.
    - `extra_body`: parameters for vLLM in requests that do not set them.
    """

    base_url: BaseUrl
    api_key: ApiKey = None
    model: str
    return_token_id_information: bool = False
    uses_reasoning_parser: bool = True
    extra_body: dict[str, Any] = Field(default_factory=dict)

    def endpoints(self) -> list[EndpointSettings]:
        return endpoint_settings(self.base_url, self.api_key, self.max_concurrency)


class VllmModel(EndpointModelServer):
    """A model served by vLLM, at one or several endpoints."""

    config: VllmModelConfig

    async def responses(self, params: Row) -> bytes:
        think_tags = not self.config.uses_reasoning_parser
        asked = _decode(params.raw, ModelRequestError, "the request")
        answer = await self._complete(chat_request(asked, think_tags=think_tags))
        completion = _decode(answer, ModelMalformedError, "vLLM's answer")
        response = response_from_chat(completion, asked, think_tags=think_tags)
        if self.config.return_token_id_information:
            _check_tokens(response["output"][-1])
        return msgspec.json.encode(response)

    async def chat_completions(self, params: Row) -> bytes:
        return await self._complete(_decode(params.raw, ModelRequestError, "the request"))

    async def _complete(self, request: JsonObject) -> bytes:
        # Model and tokens are set last, so that a request cannot change them.
        body = {**self.config.extra_body, **request, "model": self.config.model}
        if self.config.return_token_id_information:
            body |= {"return_token_ids": True, "logprobs": True}
        body["messages"] = _acceptable_messages(body.get("messages"))
        return await self.pool.post("/chat/completions", msgspec.json.encode(body))


def _check_tokens(item: JsonObject) -> None:
    """Raise an error if the tokens are missing, because training needs them."""
    wanted = ("prompt_token_ids", "generation_token_ids", "generation_log_probs")
    missing = [name for name in wanted if name not in item]
    if missing:
        raise ModelMalformedError(
            f"vLLM did not return {' and '.join(missing)}, which return_token_id_information asks "
            "for; use a version of vLLM that supports `return_token_ids`",
            retryable=False,
        )


def _decode(
    raw: bytes, error: type[ModelRequestError | ModelMalformedError], subject: str
) -> JsonObject:
    try:
        return _OBJECT.decode(raw)
    except (msgspec.DecodeError, RecursionError) as cause:
        raise error(f"{subject} cannot be decoded: {cause}") from cause


def _acceptable_messages(messages: Any) -> Any:
    """The messages in a form that vLLM accepts. vLLM rejects those with another structure."""
    if not isinstance(messages, list):
        return messages
    return [_acceptable_message(each) if isinstance(each, dict) else each for each in messages]


def _acceptable_message(message: dict[str, Any]) -> dict[str, Any]:
    if message.get("role") == "developer":
        return {**message, "role": "system"}
    calls = message.get("tool_calls")
    if isinstance(calls, list) and calls:
        return {**message, "tool_calls": [_acceptable_call(call) for call in calls]}
    return message


def _acceptable_call(call: Any) -> Any:
    match call:
        case {"function": {"arguments": str(arguments)}} if not _is_object(arguments):
            return {**call, "function": {**call["function"], "arguments": _wrapped(arguments)}}
        case _:
            return call


def _is_object(arguments: str) -> bool:
    try:
        _RAW_OBJECT.decode(arguments)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def _wrapped(arguments: str) -> str:
    if not arguments.strip():
        return "{}"
    return msgspec.json.encode({MALFORMED_ARGUMENTS: arguments}).decode()
