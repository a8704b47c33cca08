"""A GGUF file as a model, served by llama.cpp in a process that belongs to this server.

Requests become chat completions, as for vLLM, and go to llama.cpp's HTTP server on this machine
(`rollgym.servers.gguf`). Without a `model_path` the model is the bundled SmolLM2-135M-Instruct.

*Tool calls.* llama.cpp reads the calls of many formats from a reply, if the chat template of the
file knows tools. That of SmolLM2 does not, so the bundled model has another template, and calls are
read here: llama.cpp renders the tools into the prompt and returns the text as it is. `tools`
chooses between the two ways.

*First calls.* Small models answer before they have looked anything up. With `constrain_calls:
first`, a reply must be a tool call as long as the conversation has no result of a tool.

*Tokens* are those of `rollgym.servers.exact_tokens`, as for vLLM. A grammar holds there too.
"""

import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from pydantic import Field, SecretStr

from responses_api_models.embedded_model.grammar import call_grammar, function_of
from rollgym.records import ModelMalformedError, ModelRequestError, ModelUnavailableError, Row
from rollgym.servers import EndpointModelConfig, ModelServer, ServerDirectory
from rollgym.servers.endpoints import EndpointPool, EndpointSettings
from rollgym.servers.endpoints.times import note_fallback, note_first_token
from rollgym.servers.episode import TAKES_TOKENS
from rollgym.servers.exact_tokens import ExactTokens, last_tokens, require_tokens, tagged_calls
from rollgym.servers.gguf import BUNDLED_MODEL, GgufProcess, gguf_settings
from rollgym.servers.model import decoded
from rollgym.servers.responses import (
    ChatForm,
    JsonObject,
    chat_request,
    metadata_parameters,
    response_from_chat,
)
from rollgym.store import Setting


class EmbeddedModelConfig(EndpointModelConfig):
    """Settings of a model from a GGUF file.

    - `model_path`: the file; null: the bundled SmolLM2-135M-Instruct.
    - `chat_template`: file with a Jinja template in place of the model's own.
    - `tools`: who writes and reads tool calls: `server` (llama.cpp, by the model's template) or
      `tagged` (this server, as JSON between `<tool_call>` tags); null: `tagged` for the bundled
      model, otherwise `server`.
    - `constrain_calls`: which replies to a request with tools must be calls: `first` (until there
      is a tool result), `always`, or `never` (only where the request says so).
    - `threads`, `slots`, `context`, `gpu_layers`: processor threads; requests at the same time;
      tokens of one conversation; layers on a GPU.
    - `start_timeout`, `restarts`: seconds until the model must be loaded; how often its process is
      started again.
    - `return_token_id_information`: put the exact tokens and their log probabilities onto the last
      output item of every answer.
    - `continue_from_tokens`: send tokens in place of messages, so that every turn continues the
      exact tokens of the turn before; includes `return_token_id_information`.
    - `replace_developer_role_with_system`: send messages of the role `developer` as `system`.
    """

    model_path: Path | None = None
    chat_template: Path | None = None
    tools: Literal["server", "tagged"] | None = None
    constrain_calls: Literal["first", "always", "never"] = "first"
    threads: Annotated[int, Setting.TIMING] = Field(default=1, ge=1)
    slots: Annotated[int, Setting.TIMING] = Field(default=4, ge=1)
    context: int = Field(default=4096, ge=256)
    gpu_layers: Annotated[int, Setting.TIMING] = Field(default=-1, ge=-1)
    start_timeout: Annotated[float, Setting.TIMING] = Field(default=120.0, gt=0)
    restarts: Annotated[int, Setting.TIMING] = Field(default=3, ge=0)
    return_token_id_information: bool = False
    continue_from_tokens: bool = False
    replace_developer_role_with_system: bool = True

    @property
    def name(self) -> str:
        return self.model_path.stem if self.model_path else BUNDLED_MODEL

    @property
    def gives_tokens(self) -> bool:
        return self.return_token_id_information or self.continue_from_tokens

    @property
    def tags_calls(self) -> bool:
        return self.tools == "tagged" or (self.tools is None and self.model_path is None)


class EmbeddedModel(ModelServer):
    """A model of a GGUF file, and the process that serves it."""

    once = True  # the weights are in memory once
    config: EmbeddedModelConfig

    def __init__(
        self, name: str, config: EmbeddedModelConfig, directory: ServerDirectory | None = None
    ) -> None:
        super().__init__(name, config, directory)
        self._process: GgufProcess | None = None
        self._pool: EndpointPool | None = None
        self._tokens: ExactTokens | None = None

    async def start(self) -> None:
        """Raises WeightsError."""
        config, key = self.config, secrets.token_urlsafe(32)
        settings = gguf_settings(
            config.model_path,
            config.chat_template,
            threads=config.threads,
            slots=config.slots,
            context=config.context,
            gpu_layers=config.gpu_layers,
            key=key,
        )
        self._process = process = GgufProcess(
            settings, start_timeout=config.start_timeout, restarts=config.restarts
        )
        try:
            await process.start()
        except BaseException:
            await process.close()
            raise
        most = config.max_concurrency or config.slots
        endpoint = EndpointSettings(
            base_url=f"{process.url}/v1", api_key=SecretStr(key), max_concurrency=most
        )
        self._pool = EndpointPool(
            [endpoint], config.pool, version_header=config.policy_version_header
        )
        self._tokens = ExactTokens(self._pool)

    async def close(self) -> None:
        if self._pool is not None:
            await self._pool.close()
        if self._process is not None:
            await self._process.close()

    def health(self) -> dict[str, Any]:
        process = self._process
        found: dict[str, Any] = {"model": self.config.name}
        if process is not None:
            found |= {"process": process.pid, "restarts": process.restarts}
            found |= {"failure": process.failure} if process.failure else {}
        return {**super().health(), **found}

    async def models(self) -> bytes:
        return await self._client.get("/models")

    async def responses(self, params: Row) -> bytes:
        asked = decoded(params.raw, ModelRequestError, "the request")
        request = chat_request(asked)
        completion = await self._complete(request, last_tokens(asked.get("input")))
        note_first_token(completion)
        note_fallback(completion, self.config.policy_version_fallback)
        response = response_from_chat(completion, asked)
        if self.config.gives_tokens:
            require_tokens(response["output"][-1])
        if self.config.continue_from_tokens:
            response["output"][-1][TAKES_TOKENS] = True
        arguments = metadata_parameters(asked.get("metadata")).chat_template_kwargs
        form = msgspec.structs.replace(self._form, chat_template_kwargs=arguments)
        return msgspec.json.encode(form.noted(response, request["messages"]))

    async def chat_completions(self, params: Row) -> bytes:
        asked = decoded(params.raw, ModelRequestError, "the request")
        return msgspec.json.encode(await self._complete(asked))

    @property
    def _client(self) -> EndpointPool:
        """Raises ModelUnavailableError once the model is not started again."""
        if self._process is None or self._pool is None:
            raise ModelUnavailableError(f"{self.name} was not started")
        if self._process.failure is not None:
            raise ModelUnavailableError(self._process.failure, retryable=False)
        return self._pool

    async def _complete(self, request: JsonObject, before: Sequence[int] = ()) -> JsonObject:
        """The chat completion for a chat request; `before` are the tokens that it continues."""
        body, client = self._body(request), self._client
        _check_tool_choice(body.get("tool_choice"), body.get("tools"))
        tagged = self.config.tags_calls and bool(body.get("tools"))
        if tagged:
            self._constrain(body)
        elif body.get("tools") and body.get("tool_choice", "auto") == "auto":
            body["tool_choice"] = "required" if self._must_call(body) else "auto"
        if self._tokens is not None and self.config.continue_from_tokens:
            if tagged:  # only the chat endpoint knows tools; the grammar says the same
                del body["tool_choice"]
            return await self._tokens.continued(body, list(before))
        if self._tokens is not None and self.config.return_token_id_information:
            answer = await self._tokens.chat(body)
        else:
            answer = await client.post("/chat/completions", msgspec.json.encode(body))
        completion = decoded(answer, ModelMalformedError, "llama.cpp's answer")
        match completion.get("choices"):
            case [{"message": {"content": str(text)} as message} as choice, *_] if tagged:
                message["content"], calls = tagged_calls(text)
                if calls:
                    choice["message"] = {**message, "tool_calls": calls}
        return completion

    @property
    def _form(self) -> ChatForm:
        return ChatForm(developer_as_system=self.config.replace_developer_role_with_system)

    def _body(self, request: JsonObject) -> JsonObject:
        carried = metadata_parameters(request.pop("metadata", None))
        body = {**self.config.extra_parameters, **carried.extra_body, **request}
        if carried.chat_template_kwargs:
            body["chat_template_kwargs"] = carried.chat_template_kwargs
        body["model"] = self.config.name
        if body.get("logprobs"):
            # llama.cpp returns none for 0, and twenty alternatives of a token where it is missing.
            body["top_logprobs"] = body.get("top_logprobs") or 1
        messages = body.get("messages")
        if isinstance(messages, list):
            body["messages"] = [*map(self._form.sent, messages)]
        return body

    def _must_call(self, body: JsonObject) -> bool:
        """Whether the reply has to be a tool call, by the request or by the settings."""
        asked = body.get("tool_choice") or "auto"
        if asked != "auto":
            return asked != "none"
        match self.config.constrain_calls:
            case "first":
                messages = body.get("messages") or []
                return not any(_is_tool_result(message) for message in messages)
            case wanted:
                return wanted == "always"

    def _constrain(self, body: JsonObject) -> None:
        """Let llama.cpp render the tools and return text, which must be a call where needed."""
        if self._must_call(body):
            match body.get("tool_choice"):
                case {"function": {"name": str(name)}}:
                    body["grammar"] = call_grammar(body["tools"], name)
                case _:
                    body["grammar"] = call_grammar(body["tools"])
        body["tool_choice"] = "none"


def _is_tool_result(message: Any) -> bool:
    return isinstance(message, dict) and message.get("role") == "tool"


def _check_tool_choice(choice: Any, tools: Any) -> None:
    """llama.cpp would answer a forced call without its tool with a text.

    Raises ModelRequestError.
    """
    if choice == "required" and not tools:
        raise ModelRequestError("tool_choice is required, and the request has no tools")
    match choice:
        case {"function": {"name": str(name)}}:
            known = [function_of(tool).get("name") for tool in tools or ()]
            if name not in known:
                has = ", ".join(map(str, known)) or "none"
                raise ModelRequestError(f"tool_choice is {name}, and the tools are: {has}")
