"""A chat model behind one or several endpoints: questions with pictures, answered in time.

*Time.* A call first waits for its turn: so many are under way at once, and who came first goes
first. The turn is waited for as long as the rollout has time; `within` counts from there, for all
tries together. What a try meets, a limit, an outage, a broken answer, is the pool's to repeat
(`rollgym.servers.endpoints`), `max_retries` times and once at a few of the other endpoints.

*A model that is away.* Between two iterations a model server is started anew, and an episode of
thirty steps should not be lost over ten seconds. A call that has used up its tries waits and tries
again while its `patience` lasts, unless another call is answered meanwhile: then the model is
there, and it is this request that it fails at.

*Tokens.* With `tokens` the server is asked for the token ids and log probabilities (`ASKED`), as
vLLM gives them. Endpoints that refuse requests over these fields are asked without them from then
on, and one warning says so: episodes are worth having without them.

*Event loops.* Connections belong to an event loop, so each loop that calls gets its own. `close`
closes those of the loop it is called in.
"""

import asyncio
import logging
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Self

import msgspec

from rollgym.records import (
    DeadlineError,
    ModelMalformedError,
    ModelRequestError,
    ModelUnavailableError,
)
from rollgym.servers.context import seconds_left
from rollgym.servers.endpoints import EndpointPool, PoolReport, PoolSettings
from rollgym.servers.limit import Limit
from webgym.models.completion import Completion, read_completion
from webgym.models.endpoints import FoundryEndpoint

Message = Mapping[str, object]

ASKED: Mapping[str, object] = {"return_token_ids": True, "logprobs": True}
"""What a request says to be told the tokens. It changes nothing about the answer itself."""
LONGEST_TURN_WAIT = 1800.0
NAMING_SECONDS = 30.0
LONGEST_REST = 5.0
SHORTEST_PAUSE = 0.2
MOST_DETOURS = 3
"""How many other endpoints a call may be sent to beyond its retries."""

_PATH = "/chat/completions"
_REFUSED = re.compile(r" answered (?:400|422)\b")
_LOGGER = logging.getLogger("webgym.models")


class ChatSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How a model is called. Times are in seconds.

    - `model`: its name there; None: the one that the endpoints serve.
    - `max_concurrency`: calls under way at a time, over all endpoints.
    - `request_timeout`: the bound of one try; `max_retries`: further ones of a call, beside those
      that other endpoints are worth.
    - `patience`: for how long a call begins anew where the model answers nobody.
    - `tokens`: ask for token ids and log probabilities.
    """

    model: str | None = None
    max_concurrency: int = 32
    request_timeout: float = 120.0
    max_retries: int = 1
    patience: float = 0.0
    tokens: bool = False


class _ModelCard(msgspec.Struct, frozen=True):
    id: str


class _ModelList(msgspec.Struct, frozen=True):
    data: list[_ModelCard]


class ChatModel:
    """A model to talk to. Raises EndpointError where an endpoint's key is missing."""

    def __init__(
        self, endpoints: Sequence[FoundryEndpoint], settings: ChatSettings | None = None
    ) -> None:
        self.settings = settings or ChatSettings()
        self._endpoints = [endpoint.settings() for endpoint in endpoints]
        if not self._endpoints:
            raise ValueError("a chat model needs at least one endpoint")
        self._lines: dict[asyncio.AbstractEventLoop, _Line] = {}
        self._name = self.settings.model
        self._asks_for_tokens = self.settings.tokens
        self._told_of_tokens = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections of this event loop; calls under way there fail."""
        line = self._lines.pop(asyncio.get_running_loop(), None)
        if line is not None:
            await line.pool.close()

    async def complete(
        self, messages: Sequence[Message], params: Mapping[str, object], *, within: float
    ) -> Completion:
        """The model's answer to a chat, sampled with these parameters of the API.

        It takes at most `within` seconds from its turn on. Raises the model errors of
        `rollgym.records` (ModelMalformedError where an answer has no content), and DeadlineError.
        """
        line, loop = self._line(), asyncio.get_running_loop()
        began = loop.time()
        await line.take_turn()
        try:
            deadline = loop.time() + seconds_left(within)
            request = {**params, "messages": messages, "model": await self._named(line, deadline)}
            answer = await self._answer(line, request, deadline)
        finally:
            line.turns.release()
        self._look_at_tokens(answer)
        return msgspec.structs.replace(answer, seconds=loop.time() - began)

    async def name(self) -> str:
        """The model's name: as it was given, or the one model that the endpoints serve.

        Raises ModelRequestError where they serve none or several, and whatever a call may raise.
        """
        return await self._named(self._line(), asyncio.get_running_loop().time() + NAMING_SECONDS)

    def report(self) -> PoolReport:
        """How the endpoints are doing, as this event loop sees them."""
        return self._line().pool.report()

    def _line(self) -> "_Line":
        loop = asyncio.get_running_loop()
        line = self._lines.get(loop)
        if line is None:
            # A copy, because a loop in another thread may be adding itself.
            for ended in [each for each in list(self._lines) if each.is_closed()]:
                self._lines.pop(ended, None)
            pool = EndpointPool(self._endpoints, self._pool_settings())
            line = self._lines[loop] = _Line(pool, self.settings)
        return line

    def _pool_settings(self) -> PoolSettings:
        detours = min(len(self._endpoints) - 1, MOST_DETOURS)
        return PoolSettings(
            request_timeout=self.settings.request_timeout,
            max_retries=self.settings.max_retries + detours,
            rest_maximum=LONGEST_REST,
        )

    async def _named(self, line: "_Line", deadline: float) -> str:
        if self._name is None:
            async with line.naming:
                # Somebody who came before may have asked.
                self._name = self._name or await _served_model(line, deadline)
        return self._name

    async def _answer(
        self, line: "_Line", request: Mapping[str, object], deadline: float
    ) -> Completion:
        if not self._asks_for_tokens:
            return await _readable(line, request, deadline)
        try:
            return await _readable(line, {**request, **ASKED}, deadline)
        except ModelRequestError as error:
            if not _REFUSED.search(str(error)):
                raise
            refusal = str(error)
        answer = await _readable(line, request, deadline)
        # It is not known to be about these fields before the request goes well without them.
        if self._asks_for_tokens:
            self._asks_for_tokens = False
            _LOGGER.warning(
                "the model is asked without %s from now on, and there will be no token ids and "
                "no log probabilities: %s",
                " and ".join(ASKED),
                refusal,
            )
        return answer

    def _look_at_tokens(self, answer: Completion) -> None:
        if not self._asks_for_tokens or self._told_of_tokens:
            return
        if answer.token_ids is None or answer.logprobs is None:
            self._told_of_tokens = True
            _LOGGER.warning(
                "the model server was asked for token ids and log probabilities and gave no usable "
                "ones%s; of vLLM it must be a version that knows `return_token_ids`",
                f" ({answer.token_problem})" if answer.token_problem else "",
            )


class _Outage(NamedTuple):
    """The first failure of a call: what all calls had been answered then, and how long to wait."""

    answered: int
    patient_until: float


class _Line:
    """What one event loop has of a model: connections, and the turns to use them."""

    def __init__(self, pool: EndpointPool, settings: ChatSettings) -> None:
        self.pool = pool
        self.turns = asyncio.Semaphore(settings.max_concurrency)
        self.naming = asyncio.Lock()
        self.retries = settings.max_retries
        self._settings = settings

    async def take_turn(self) -> None:
        """Wait until it is this call's turn. Raises DeadlineError."""
        seconds = seconds_left(LONGEST_TURN_WAIT)
        try:
            with Limit(seconds):
                await self.turns.acquire()
        except TimeoutError as error:
            most = self._settings.max_concurrency
            raise DeadlineError(
                f"a call of the model had no turn within {seconds:.1f} s: {most} others were under "
                "way all the time; allow more at once, or run fewer rollouts in parallel"
            ) from error

    async def ask(self, path: str, body: bytes | None, deadline: float) -> bytes:
        """The answer, waited for patiently where nobody gets one. Raises what the pool raises."""
        clock = asyncio.get_running_loop().time
        outage: _Outage | None = None
        while True:
            try:
                if body is None:
                    return await self.pool.get(path, deadline=deadline)
                return await self.pool.post(path, body, deadline=deadline)
            except ModelUnavailableError as error:
                # What was answered before the first failure says nothing: the model was there then.
                outage = outage or _Outage(self._answered(), clock() + self._settings.patience)
                pause = max(SHORTEST_PAUSE, error.retry_after or 0.0)
                over = clock() + pause >= min(outage.patient_until, deadline)
                if over or self._answered() > outage.answered:
                    raise
            await asyncio.sleep(pause)

    def _answered(self) -> int:
        """How many requests of all calls were answered so far."""
        return sum(each.ok for each in self.pool.report().endpoints)


async def _readable(line: _Line, request: Mapping[str, object], deadline: float) -> Completion:
    """An answer that can be read; one that cannot is asked for once more, where retries are."""
    body = msgspec.json.encode(request)
    try:
        return read_completion(await line.ask(_PATH, body, deadline))
    except ModelMalformedError:
        if not line.retries:
            raise
    return read_completion(await line.ask(_PATH, body, deadline))


async def _served_model(line: _Line, deadline: float) -> str:
    answer = await line.ask("/models", None, deadline)
    try:
        served = [card.id for card in msgspec.json.decode(answer, type=_ModelList).data]
    except msgspec.DecodeError as error:
        raise ModelMalformedError(f"the list of models cannot be read: {error}") from error
    if len(served) != 1:
        what = f"several models: {', '.join(served[:8])}" if served else "no model"
        raise ModelRequestError(
            f"the endpoint serves {what}; give the name of the one to ask as base_model"
        )
    return served[0]
