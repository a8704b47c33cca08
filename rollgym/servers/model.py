"""Model servers: a language model behind the OpenAI Responses API.

A subclass implements `responses`, and `models` where it can. Requests and answers stay JSON,
because a model server mostly passes them on. Chat completions are converted to Responses and back,
unless a subclass has its own.

*Streams.* A request with `stream: true` is answered with server-sent events: those of an endpoint
that streams, or those of the finished answer. An error before the first event is an error answer;
later it is an event of its own, and the stream ends.
"""

import logging
from collections.abc import Awaitable, Callable, Iterator
from typing import Annotated, Any, TypeVar

import msgspec

from rollgym.records import (
    ModelMalformedError,
    ModelRequestError,
    ModelUnavailableError,
    RolloutError,
    Row,
    RowError,
)
from rollgym.records.decoding import JsonDecoder
from rollgym.servers.context import current_rollout
from rollgym.servers.endpoints import (
    EndpointPool,
    EndpointPoolSettings,
    EndpointSettings,
    MaxConcurrency,
    PoolStream,
)
from rollgym.servers.endpoints.settings import HeaderName
from rollgym.servers.endpoints.times import POLICY_VERSION_HEADER, VersionFallback, timing_call
from rollgym.servers.exchange import Answer, Request, failure_answer, json_answer
from rollgym.servers.responses import (
    JsonObject,
    chat_completion,
    completion_chunks,
    response_events,
    responses_request,
    sse,
    without_stream,
)
from rollgym.servers.server import Server, ServerConfig, ServerDirectory, ServerKind
from rollgym.store import Setting

T = TypeVar("T")
EVENT_STREAM = "text/event-stream"
_OBJECT = JsonDecoder(dict[str, Any])
_EMPTY_LINES = (b"\n\n", b"\r\n\r\n")
_LOGGER = logging.getLogger("rollgym.servers")


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
        request = responses_request(decoded(params.raw, ModelRequestError, "the request"))
        response = await self.responses(Row(msgspec.json.encode(request)))
        answer = decoded(response, ModelMalformedError, "the response")
        return msgspec.json.encode(chat_completion(answer))

    async def models(self) -> bytes:
        """The list of models."""
        return json_answer({"object": "list", "data": []}).body

    async def stream_responses(self, params: Row) -> PoolStream | bytes:
        """The events for parameters with `stream`, or the finished response."""
        return await self.responses(_finished(params))

    async def stream_chat_completions(self, params: Row) -> PoolStream | bytes:
        """The chunks for parameters with `stream`, or the finished chat completion."""
        return await self.chat_completions(_finished(params))

    async def _answer_responses(self, request: Request) -> Answer:
        params = _params(request.body)
        if not _asks_for_stream(params):
            with timing_call() as times:
                try:
                    body = await self.responses(params)
                except OSError as error:
                    raise _unavailable(error) from error
            return Answer(200, body, headers=times.headers())
        return self._streamed(await _result(self.stream_responses(params)), response_events)

    async def _answer_chat_completions(self, request: Request) -> Answer:
        params = _params(request.body)
        if not _asks_for_stream(params):
            with timing_call() as times:
                body = await _result(self.chat_completions(params))
            return Answer(200, body, headers=times.headers())
        with_usage = _asks_for_usage(params)
        return self._streamed(
            await _result(self.stream_chat_completions(params)),
            lambda completion: completion_chunks(completion, with_usage=with_usage),
        )

    async def _answer_models(self, _: Request) -> Answer:
        return Answer(200, await _result(self.models()))

    def _streamed(
        self, answer: PoolStream | bytes, events: Callable[[JsonObject], Iterator[bytes]]
    ) -> Answer:
        headers = {"cache-control": "no-cache"}
        if isinstance(answer, PoolStream):
            parts = _Events(answer, self.name)
            return Answer(200, content_type=EVENT_STREAM, headers=headers, parts=parts)
        finished = decoded(answer, ModelMalformedError, "the answer")
        return Answer(200, b"".join(events(finished)), EVENT_STREAM, headers=headers)


class _Events:
    """The events of an endpoint, each of them whole; an error becomes the last event."""

    def __init__(self, stream: PoolStream, server: str) -> None:
        self._stream = stream
        self._server = server
        self._rest = bytearray()
        self._ended = False

    def __aiter__(self) -> "_Events":
        return self

    async def __anext__(self) -> bytes:
        while not self._ended:
            searched = max(0, len(self._rest) - 3)
            try:
                self._rest += await anext(self._stream)
            except StopAsyncIteration:
                self._ended = True
                if self._rest:
                    return bytes(self._rest)
            except (RolloutError, OSError) as error:
                self._ended = True
                about = {"server": self._server, "rollout": current_rollout()}
                _LOGGER.warning("the stream broke off: %s", error, extra=about)
                return _error_event(error)
            else:
                if events := self._whole_events(searched):
                    return events
        raise StopAsyncIteration

    async def aclose(self) -> None:
        await self._stream.aclose()

    def _whole_events(self, searched: int) -> bytes:
        """Take everything up to the last empty line; there is none in the first bytes."""
        ends = ((self._rest.rfind(mark, searched), len(mark)) for mark in _EMPTY_LINES)
        end = max(start + length if start >= 0 else 0 for start, length in ends)
        events = bytes(self._rest[:end])
        del self._rest[:end]
        return events


def _error_event(error: Exception) -> bytes:
    body = _OBJECT.decode(failure_answer(error).body)["error"]
    named = {name: body.get(name) for name in ("message", "code", "param")}
    return sse({"type": "error", **named, "error": body}, "error")


class EndpointModelConfig(ServerConfig):
    """Settings of every model server in front of endpoints.

    - `max_concurrency`: the most running requests at each endpoint.
    - `pool`: timeouts and retries.
    - `extra_body`: parameters for requests that do not set them; null is left out.
    - `policy_version_header`: header of responses with the policy version; null reads none.
    - `policy_version_fallback`: the field to use as policy version if the endpoint sends none:
      `model` (the name of the model in its answer) or `system_fingerprint`; null: it is unknown.
    """

    max_concurrency: MaxConcurrency = None
    pool: EndpointPoolSettings = EndpointPoolSettings()
    extra_body: dict[str, Any] | None = None
    policy_version_header: Annotated[HeaderName, Setting.NOTE] = POLICY_VERSION_HEADER
    policy_version_fallback: Annotated[VersionFallback | None, Setting.NOTE] = None

    @property
    def extra_parameters(self) -> dict[str, Any]:
        """`extra_body` without nulls, and without what asks for a stream."""
        given = without_stream(self.extra_body or {})
        return {name: value for name, value in given.items() if value is not None}

    def endpoints(self) -> list[EndpointSettings]:
        """The endpoints that the settings name."""
        raise NotImplementedError


class EndpointModelServer(ModelServer):
    """Base of model servers in front of one or several OpenAI-compatible endpoints."""

    def __init__(
        self, name: str, config: EndpointModelConfig, directory: ServerDirectory | None = None
    ) -> None:
        super().__init__(name, config, directory)
        self.extra_parameters = config.extra_parameters
        self.pool = EndpointPool(
            config.endpoints(), config.pool, version_header=config.policy_version_header
        )

    async def close(self) -> None:
        await self.pool.close()

    def health(self) -> dict[str, Any]:
        return {**super().health(), **msgspec.to_builtins(self.pool.report())}

    async def models(self) -> bytes:
        return await self.pool.get("/models")


async def _result(answer: Awaitable[T]) -> T:
    """A network error means that the model is unavailable; any other untyped error is a bug."""
    try:
        return await answer
    except OSError as error:
        raise _unavailable(error) from error


def _unavailable(error: OSError) -> ModelUnavailableError:
    return ModelUnavailableError(f"{type(error).__name__}: {error}")


def decoded(
    raw: bytes, error: type[ModelRequestError | ModelMalformedError], subject: str
) -> JsonObject:
    """A JSON object, decoded. Raises `error`, which names the subject."""
    try:
        return _OBJECT.decode(raw)
    except msgspec.DecodeError as cause:
        raise error(f"{subject} cannot be decoded: {cause}") from cause


def _params(body: bytes) -> Row:
    try:
        return Row.parse(body)
    except RowError as error:
        raise ModelRequestError(f"the request is not a JSON object: {error}") from error


def _asks_for_stream(params: Row) -> bool:
    raw = params.fields.get("stream")
    if raw is None:
        return False
    given = bytes(raw)
    if given not in (b"true", b"false", b"null"):
        raise ModelRequestError("`stream` must be true or false")
    return given == b"true"


def _asks_for_usage(params: Row) -> bool:
    options = params.get("stream_options", object)
    return isinstance(options, dict) and bool(options.get("include_usage"))


def _finished(params: Row) -> Row:
    """The same request for a finished answer."""
    return Row.of(without_stream(dict(params.fields)))
