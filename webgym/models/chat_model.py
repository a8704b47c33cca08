"""A chat model behind one or several endpoints.

*Time.* A call first waits for a slot: `max_concurrency` calls run at a time, in the order they
came. A call waits for its slot as long as the rollout has time; `within` counts from then on, for
all tries together. The endpoint pool (`rollgym.servers.endpoints`) retries after rate limits,
outages and broken responses, `max_retries` times and once at a few of the other endpoints.

*Outages.* Between two iterations a model server may be restarted, and an episode of thirty steps
should not be lost over ten seconds. A call that has used up its tries waits and tries again for
`outage_timeout` seconds, unless another call is answered in the meantime: then the model is
running, and this request itself fails.

*Tokens.* With `tokens` the server is asked for token ids and log probabilities
(`rollgym.servers.exact_tokens`). Endpoints that reject such requests are asked without them from
then on, and one warning says so, because episodes are useful without them.

*Event loops.* Connections belong to an event loop, so each loop that calls has its own. `close`
closes those of the loop it is called in.
"""

import asyncio
import logging
import math
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import NamedTuple

import msgspec

from rollgym.closing import AsyncClosable
from rollgym.records import (
    DeadlineError,
    ModelMalformedError,
    ModelRequestError,
    ModelUnavailableError,
)
from rollgym.records.decoding import decode_json
from rollgym.records.version import merged_version
from rollgym.servers.context import seconds_left
from rollgym.servers.endpoints import EndpointPool, EndpointPoolSettings
from rollgym.servers.endpoints.times import POLICY_VERSION_HEADER, VersionFallback, timing_call
from rollgym.servers.exact_tokens import ExactTokens
from rollgym.servers.limit import Limit
from webgym.models.completion import Completion, read_completion
from webgym.models.endpoints import FoundryEndpoint

Message = Mapping[str, object]

LONGEST_SLOT_WAIT = 1800.0
LONGEST_COOLDOWN = 5.0
SHORTEST_PAUSE = 0.2
MAX_OTHER_ENDPOINTS = 3
"""The most other endpoints that a call may be sent to beyond its retries."""

_REJECTED = (HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY)
_LOGGER = logging.getLogger("webgym.models")


class ChatSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How a model is called. Times are in seconds.

    - `model`: its name at the endpoints; None: the one model that they serve.
    - `max_concurrency`: running calls at a time, over all endpoints.
    - `request_timeout`: for one try; `max_retries`: further tries of a call, besides those at other
      endpoints.
    - `outage_timeout`: how long a call is repeated while the model answers no call.
    - `tokens`: ask for token ids and log probabilities.
    - `version_header`: header of responses with the policy version; `version_fallback`: the field
      to use as policy version if the endpoint sends none.
    """

    model: str | None = None
    max_concurrency: int = 32
    request_timeout: float = 120.0
    max_retries: int = 1
    outage_timeout: float = 0.0
    tokens: bool = False
    version_header: str | None = POLICY_VERSION_HEADER
    version_fallback: VersionFallback | None = None


class _ModelCard(msgspec.Struct, frozen=True):
    id: str


class _ModelList(msgspec.Struct, frozen=True):
    data: list[_ModelCard]


class ChatModel(AsyncClosable):
    """A chat model. Raises EndpointError if an endpoint's key is missing."""

    def __init__(
        self, endpoints: Sequence[FoundryEndpoint], settings: ChatSettings | None = None
    ) -> None:
        self.settings = settings or ChatSettings()
        self._endpoints = [endpoint.settings() for endpoint in endpoints]
        if not self._endpoints:
            raise ValueError("a chat model needs at least one endpoint")
        self._connections: dict[asyncio.AbstractEventLoop, _ModelConnections] = {}
        self._name = self.settings.model
        self._asks_for_tokens = self.settings.tokens
        self._warned_of_tokens = False

    async def close(self) -> None:
        """Close the connections of this event loop; running calls there fail."""
        connections = self._connections.pop(asyncio.get_running_loop(), None)
        if connections is not None:
            await connections.pool.close()

    async def complete(
        self, messages: Sequence[Message], params: Mapping[str, object], *, within: float
    ) -> Completion:
        """The model's reply to a chat, with these parameters of the API.

        It takes at most `within` seconds once it has a slot. Raises the model errors of
        `rollgym.records` (ModelMalformedError if a response has no content), and DeadlineError.
        """
        connections, loop = self._connect(), asyncio.get_running_loop()
        started = loop.time()
        await connections.acquire_slot()
        waited = loop.time() - started
        try:
            deadline = loop.time() + seconds_left(within)
            request = {
                **params,
                "messages": messages,
                "model": await self._model_name(connections, deadline),
            }
            with timing_call() as times:
                answer = await self._answer(connections, request, deadline)
        finally:
            connections.slots.release()
        self._warn_of_missing_tokens(answer)
        return msgspec.structs.replace(
            answer,
            seconds=loop.time() - started,
            queued=waited + times.queued,
            first_token=times.first_token,
            version=merged_version(times.version, answer.version),
        )

    def _connect(self) -> "_ModelConnections":
        loop = asyncio.get_running_loop()
        connections = self._connections.get(loop)
        if connections is None:
            # A copy, because a loop in another thread may add itself at the same time.
            for ended in [each for each in list(self._connections) if each.is_closed()]:
                self._connections.pop(ended, None)
            pool = EndpointPool(
                self._endpoints,
                self._pool_settings(),
                version_header=self.settings.version_header,
            )
            connections = self._connections[loop] = _ModelConnections(pool, self.settings)
        return connections

    def _pool_settings(self) -> EndpointPoolSettings:
        others = min(len(self._endpoints) - 1, MAX_OTHER_ENDPOINTS)
        return EndpointPoolSettings(
            request_timeout=self.settings.request_timeout,
            max_retries=self.settings.max_retries + others,
            rest_maximum=LONGEST_COOLDOWN,
        )

    async def _model_name(self, connections: "_ModelConnections", deadline: float) -> str:
        if self._name is None:
            async with connections.naming:
                # An earlier call may have asked in the meantime.
                self._name = self._name or await _served_model(connections, deadline)
        return self._name

    async def _answer(
        self, connections: "_ModelConnections", request: Mapping[str, object], deadline: float
    ) -> Completion:
        if not self._asks_for_tokens:
            return await _readable(connections, request, deadline)
        try:
            return await _readable(connections, request, deadline, tokens=True)
        except ModelRequestError as error:
            if error.upstream is None or error.upstream.status not in _REJECTED:
                raise
            rejection = str(error)
        answer = await _readable(connections, request, deadline)
        # Only when the request succeeds without these fields is it certain that they were the
        # reason.
        if self._asks_for_tokens:
            self._asks_for_tokens = False
            _LOGGER.warning(
                "the model is asked without token ids and log probabilities from now on: %s",
                rejection,
            )
        return answer

    def _warn_of_missing_tokens(self, answer: Completion) -> None:
        if not self._asks_for_tokens or self._warned_of_tokens:
            return
        tokens = answer.tokens
        if tokens is None or tokens.logprobs is None:
            self._warned_of_tokens = True
            _LOGGER.warning(
                "the model server was asked for token ids and log probabilities and returned no "
                "usable ones%s; with vLLM, use a version that supports `return_token_ids`",
                f" ({tokens.problem})" if tokens and tokens.problem else "",
            )


class _Outage(NamedTuple):
    """The first failure of a call: how many requests were answered by then, and when to give up."""

    answered: int
    ends: float


class _ModelConnections:
    """The connections of one event loop, and the slots for its calls."""

    def __init__(self, pool: EndpointPool, settings: ChatSettings) -> None:
        self.pool = pool
        self._tokens = ExactTokens(self)
        self.slots = asyncio.Semaphore(settings.max_concurrency)
        self.naming = asyncio.Lock()
        self.retries = settings.max_retries
        self._settings = settings

    async def acquire_slot(self) -> None:
        """Wait for a free slot. Raises DeadlineError."""
        seconds = seconds_left(LONGEST_SLOT_WAIT)
        try:
            with Limit(seconds):
                await self.slots.acquire()
        except TimeoutError as error:
            most = self._settings.max_concurrency
            raise DeadlineError(
                f"a call of the model got no slot within {seconds:.1f} s: {most} other calls were "
                "running all the time; allow more concurrent calls, or run fewer rollouts"
            ) from error

    async def complete(
        self, request: Mapping[str, object], deadline: float, *, tokens: bool
    ) -> Completion:
        """The chat completion, with its tokens on request."""
        if tokens:
            answer = await self._tokens.chat(request, deadline=deadline)
        else:
            body = msgspec.json.encode(request)
            answer = await self.post("/chat/completions", body, deadline=deadline)
        return read_completion(answer, self._settings.version_fallback)

    async def post(self, path: str, body: bytes, *, deadline: float | None = None) -> bytes:
        return await self._ask(path, body, deadline)

    async def get(self, path: str, *, deadline: float | None = None) -> bytes:
        return await self._ask(path, None, deadline)

    async def _ask(self, path: str, body: bytes | None, deadline: float | None) -> bytes:
        """The response; repeated during an outage. Raises the errors of the pool."""
        clock = asyncio.get_running_loop().time
        outage: _Outage | None = None
        while True:
            try:
                if body is None:
                    return await self.pool.get(path, deadline=deadline)
                return await self.pool.post(path, body, deadline=deadline)
            except ModelUnavailableError as error:
                # Only responses after the first failure show that the model is running.
                outage = outage or _Outage(
                    self._answered(), clock() + self._settings.outage_timeout
                )
                pause = max(SHORTEST_PAUSE, error.retry_after or 0.0)
                is_over = clock() + pause >= min(outage.ends, deadline or math.inf)
                if is_over or self._answered() > outage.answered:
                    raise
            await asyncio.sleep(pause)

    def _answered(self) -> int:
        """How many requests of all calls were answered so far."""
        return sum(each.ok for each in self.pool.report().endpoints)


async def _readable(
    connections: _ModelConnections,
    request: Mapping[str, object],
    deadline: float,
    *,
    tokens: bool = False,
) -> Completion:
    """A readable response; an unreadable one is requested once more, if retries are allowed."""
    try:
        return await connections.complete(request, deadline, tokens=tokens)
    except ModelMalformedError:
        if not connections.retries:
            raise
    return await connections.complete(request, deadline, tokens=tokens)


async def _served_model(connections: _ModelConnections, deadline: float) -> str:
    answer = await connections.get("/models", deadline=deadline)
    try:
        served = [card.id for card in decode_json(answer, _ModelList).data]
    except msgspec.DecodeError as error:
        raise ModelMalformedError(f"the list of models cannot be read: {error}") from error
    if len(served) != 1:
        what = f"several models: {', '.join(served[:8])}" if served else "no model"
        raise ModelRequestError(
            f"the endpoint serves {what}; set base_model to the name of the model"
        )
    return served[0]
