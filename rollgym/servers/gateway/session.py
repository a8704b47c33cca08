"""A session of the gateway: the calls of the agent of one rollout.

Every call is made through the rollout's episode, which adds up usage and times and keeps the
tokens; the session adds the conversations (`conversations.py`) and counts what failed.

*Parameters.* Those that the rollout sets replace those of the agent, whose own values are kept
beside the conversation.

*Tokens.* A model server that continues from tokens gets those of the turn that a call continues:
the agent does not know them, so the session puts them on the last item of that turn again.

*Failures.* The agent gets the error of the model endpoint, in its own API, and may try again. A
call that failed for a reason of the infrastructure and was never repeated with success is the
`lasting_failure` of the session: what the agent did afterwards may be due to it.

*Bounds.* A session has a limit of answered calls, of calls at the same time and of bytes that it
keeps. When it ends, calls that still run are cancelled.
"""

import asyncio
import secrets
from collections import Counter
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager
from contextvars import copy_context
from typing import Any, TypeVar

import msgspec

from rollgym.records import AgentError, ModelRequestError, RolloutError, ToolError, boundary
from rollgym.records.tokens import MOST_ENDS, TOKEN_FIELDS
from rollgym.servers.episode import TAKES_TOKENS, Episode
from rollgym.servers.exchange import Answer, RefusedRequestError, error_answer
from rollgym.servers.gateway.conversations import (
    AskedPlace,
    Conversation,
    Conversations,
    is_of_assistant,
)
from rollgym.servers.gateway.dialects import Dialect, ForcedParameters
from rollgym.servers.responses import JsonObject
from rollgym.servers.tools import RESERVED_NAMES

T = TypeVar("T")
MOST_PARALLEL = 64
_TOKENS = frozenset((*TOKEN_FIELDS, TAKES_TOKENS))


class SessionLimits(msgspec.Struct, frozen=True):
    """The most answered calls of a session, and the most bytes of requests that it keeps."""

    calls: int = 1000
    kept_bytes: int = 256 * 1024 * 1024


class CallRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """The calls of an agent, for the row of its rollout.

    - `made`, `answered`, `streamed`: the number of calls, of those with an answer, and of those
      that asked for a stream.
    - `abandoned`: calls that ended before their answer; `refused`: calls beyond the limits.
    - `failed`: the number of failed calls by kind; `dialects`: the number of calls by API.
    - `unsent`: parameters of requests that the model server cannot be asked for.
    - `replaced`: parameters of the agent that the rollout replaced, with their first values.
    - `conversations`: the main one first.
    """

    made: int
    answered: int
    streamed: int = 0
    abandoned: int = 0
    refused: int = 0
    failed: dict[str, int] = {}
    dialects: dict[str, int] = {}
    unsent: list[str] = []
    replaced: dict[str, Any] = {}
    conversations: list[Conversation] = []


class GatewaySession:
    """The calls of one rollout. `forced` are the parameters that replace those of the agent.

    Make it where the rollout runs: its calls have the context of that place, with its deadline.
    """

    def __init__(
        self,
        episode: Episode,
        *,
        forced: JsonObject | None = None,
        tools: list[JsonObject] | None = None,
        limits: SessionLimits | None = None,
    ) -> None:
        self.id = secrets.token_urlsafe(12)
        self.key = f"sk-rollgym-{secrets.token_urlsafe(32)}"
        self.episode = episode
        self.tools = tools or []
        self.exhausted = asyncio.Event()
        """Set when the agent has made as many calls as it may."""
        self.tool_failure: RolloutError | None = None
        self.wrong_keys = 0
        """The number of requests that did not have its key."""
        self.last_used = asyncio.get_running_loop().time()
        self._context = copy_context()
        self._forced = ForcedParameters(forced or {})
        self._limits = limits or SessionLimits()
        self._conversations = Conversations()
        self._arguments: dict[str, str] = {}
        self._numbers: dict[str, int] = {}
        self._sizes: list[int] = []
        self._tokens: dict[int, Mapping[str, Any]] = {}
        """The tokens of the last turns, by their numbers."""
        self._running: set[asyncio.Task[Any]] = set()
        self._lasting: dict[bytes, RolloutError] = {}
        self._failed: Counter[str] = Counter()
        self._dialects: Counter[str] = Counter()
        self._streamed = self._refused = self._kept_bytes = 0
        self._unsent: set[str] = set()

    @property
    def is_running(self) -> bool:
        return bool(self._running)

    @property
    def answered(self) -> int:
        return len(self._conversations.turns)

    @property
    def lasting_failure(self) -> RolloutError | None:
        """The last failure of the infrastructure that was not repeated with success."""
        return next(reversed(self._lasting.values()), None)

    @contextmanager
    def working(self) -> Iterator[None]:
        """A call of the agent, which is cancelled when the session ends.

        Raises RefusedRequestError for too many at the same time.
        """
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a call needs a task")
        if len(self._running) >= MOST_PARALLEL:
            message = f"the agent makes {MOST_PARALLEL} calls already: wait for one to end"
            raise RefusedRequestError(429, message)
        self._running.add(task)
        try:
            yield
        finally:
            self._running.discard(task)
            self.last_used = asyncio.get_running_loop().time()

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Start work on behalf of the rollout; cancel it if no caller waits for it any more."""
        return asyncio.get_running_loop().create_task(work, context=self._context.copy())

    async def call(self, dialect: Dialect, body: JsonObject, size: int) -> JsonObject:
        """The answer to a call, in the form of its API.

        Raises the model errors of `rollgym.records`, RefusedRequestError beyond the limits.
        """
        self._dialects[dialect.name] += 1
        self._streamed += body.get("stream") is True
        digest = b""
        try:
            self._check_limits()
            with boundary(AgentError):
                self._unsent.update(dialect.unsent(body))
                params = self._with_history(dialect.request(body, self._arguments))
                params = self._forced.applied(params)
                items = _items(params.get("input"))
                place = self._conversations.place(params.get("instructions"), items)
                digest = place.digest
                answer = dialect.answer(await self._answered(params, items, place, size))
        except RefusedRequestError:
            self._refused += 1
            raise
        except RolloutError as error:
            self._failed[str(error.kind)] += 1
            self._lasting.pop(digest, None)
            if not isinstance(error, ModelRequestError):
                self._lasting[digest] = error
            raise
        self._lasting.pop(digest, None)
        return answer

    async def ask_tool(self, name: str, arguments: bytes) -> Answer:
        """The answer of a tool of the environment; a failure of it fails the rollout."""
        known = [each.get("name") for each in self.tools]
        if name in RESERVED_NAMES or name not in known:
            self.episode.tool_calls_rejected += 1
            listed = ", ".join(map(str, known)) or "none"
            return error_answer(404, f"unknown tool {name!r}; the tools of this task: {listed}")
        try:
            return await self.episode.ask_tool(name, arguments or b"{}")
        except RolloutError as error:
            self.tool_failure = error
            status = 502 if isinstance(error, ToolError) else 500
            return error_answer(status, f"the tool {name} failed, and with it the rollout")

    def end(self) -> None:
        """Cancel the calls that still run."""
        for task in self._running:
            task.cancel()

    def output(self) -> list[JsonObject]:
        """The items of the main conversation after its first request."""
        return self._conversations.output(self._conversations.main())

    def response(self) -> JsonObject:
        """The main conversation as one Responses object, with the usage of all calls."""
        main = self._conversations.main()
        last = self._conversations.turns[main[-1]].response
        output = self._conversations.output(main)
        return {**last, "output": output, "usage": self.episode.usage_object()}

    def record(self) -> CallRecord:
        """What there is to say about the calls so far."""
        made = self._dialects.total()
        return CallRecord(
            made=made,
            answered=self.answered,
            streamed=self._streamed,
            abandoned=max(0, made - self.answered - self._refused - self._failed.total()),
            refused=self._refused,
            failed=dict(self._failed),
            dialects=dict(self._dialects),
            unsent=sorted(self._unsent),
            replaced=self._forced.replaced,
            conversations=self._conversations.all(),
        )

    async def _answered(
        self, params: JsonObject, items: list[JsonObject], place: AskedPlace, size: int
    ) -> JsonObject:
        """The response to a call, which is then part of its conversation."""
        asked = {**params, "input": self._with_tokens(place, params.get("input"))}
        response = await self.episode.ask_model(asked, read_text_calls=False)
        tokens = self.episode.last_tokens  # of this call: nothing has run since its answer
        given = {name: value for name, value in params.items() if name != "input"}
        self._conversations.add(place, items, given, response.raw)
        self._kept_bytes += size - (0 if place.after is None else self._sizes[place.after])
        self._sizes.append(size)
        if tokens is not None:
            self._tokens[self.answered - 1] = tokens
            if len(self._tokens) > MOST_ENDS:
                del self._tokens[next(iter(self._tokens))]
        for made in response.function_calls:
            self._arguments[made.call_id] = made.arguments
        if response.id:
            self._numbers[response.id] = self.answered - 1
        return _without_tokens(response.raw)

    def _check_limits(self) -> None:
        """Raises RefusedRequestError."""
        if self.answered >= self._limits.calls:
            message = f"the rollout has made the {self._limits.calls} calls that it may make"
        elif self._kept_bytes > self._limits.kept_bytes:
            message = f"the conversations of the rollout exceed {self._limits.kept_bytes} bytes"
        else:
            return
        self.exhausted.set()
        raise RefusedRequestError(403, message)

    def _with_history(self, params: JsonObject) -> JsonObject:
        """The parameters with the conversation that `previous_response_id` names."""
        before = params.get("previous_response_id")
        if not isinstance(before, str):
            return params
        if before not in self._numbers:
            raise ModelRequestError(
                f"previous_response_id: {before!r} is not a response of this rollout"
            )
        items = self._conversations.whole(self._numbers[before])
        whole = {**params, "input": [*items, *_items(params.get("input"))]}
        del whole["previous_response_id"]
        return whole

    def _with_tokens(self, place: AskedPlace, given: object) -> object:
        """The input of a call, with the tokens of the turn that it continues."""
        tokens = None if place.after is None else self._tokens.get(place.after)
        if tokens is None or not isinstance(given, list):
            return given
        said = (n for n in reversed(range(place.known)) if is_of_assistant(given[n]))
        last = next(said, None)
        return [{**item, **tokens} if n == last else item for n, item in enumerate(given)]


def _items(given: object) -> list[JsonObject]:
    if isinstance(given, str):
        return [{"role": "user", "content": given}]
    if not isinstance(given, list) or not all(isinstance(each, dict) for each in given):
        raise ModelRequestError("the request cannot be sent: `input` must be a text or a list")
    return given


def _without_tokens(response: JsonObject) -> JsonObject:
    """The response for the agent, which would send the tokens back."""
    output = response["output"]
    if all(not isinstance(item, dict) or _TOKENS.isdisjoint(item) for item in output):
        return response
    bare = [
        {name: value for name, value in item.items() if name not in _TOKENS}
        if isinstance(item, dict)
        else item
        for item in output
    ]
    return {**response, "output": bare}
