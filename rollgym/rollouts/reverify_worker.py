"""The engine's worker that verifies stored rollouts again, without a model.

A verifier may score the state that the tools left in the session. So where the environment has
state, the tool calls of the stored rollout are repeated in their order before it is verified. Calls
without an output were never made, so they are not repeated. A call that fails now, and did not fail
the first time, fails the rollout: the state would be another one.

A rollout that cannot be verified keeps its response, so that it can be verified once more.
"""

import asyncio
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from rollgym.engine import WorkItem
from rollgym.records import (
    EnvironmentSessionError,
    Failed,
    Failure,
    FailureKind,
    Outcome,
    RolloutError,
    Row,
    TaskError,
    ToolError,
    VerifierError,
)
from rollgym.records.decoding import JsonDecoder
from rollgym.records.failure import shorten
from rollgym.records.version import of_earlier_attempt
from rollgym.rollouts.rows import (
    PARAMS,
    RESPONSE,
    ROLLOUT_INDEX,
    agent_name,
    rollout_row,
)
from rollgym.rollouts.servers import Clients, CollectionServers
from rollgym.rollouts.stored_rollouts import StoredRollouts
from rollgym.rollouts.worker import outcome_of, take_turns
from rollgym.servers.agent import UNVERIFIED, close_session
from rollgym.servers.client import EXCERPT, RecoveryWait, ServerClient
from rollgym.servers.context import ending_time, working_for
from rollgym.servers.exchange import Answer, CookieJar
from rollgym.servers.replicas import NoAnswerError
from rollgym.servers.resources import CLOSABLE_HEADER
from rollgym.servers.responses import FunctionCall, Response
from rollgym.servers.verification import Verification
from rollgym.store import StoreError

VERIFY_ATTEMPTS = 4
VERIFY_TIMEOUT = 600.0
_OBJECT = JsonDecoder(dict[str, Any])


class ReverifyWorker:
    """`replay_tools` says whether to repeat the tool calls; None asks the environment."""

    def __init__(
        self,
        clients: Clients,
        servers: CollectionServers,
        stored: StoredRollouts,
        *,
        success_threshold: float,
        replay_tools: bool | None = None,
    ) -> None:
        self._clients = clients
        self._servers = servers
        self._stored = stored
        self._success_threshold = success_threshold
        self._replay_tools = replay_tools
        self._stateful: dict[str, bool] = {}
        self._verification = Verification(VERIFY_ATTEMPTS, VERIFY_TIMEOUT, RecoveryWait())

    async def __call__(self, item: WorkItem, attempt: int, deadline: float) -> Outcome:
        base, number = rollout_row(item.task, item.repeat)
        row = base.with_fields({ROLLOUT_INDEX: number})
        now = asyncio.get_running_loop().time()
        with working_for(f"{item.task.index}/{number}", deadline - ending_time(deadline - now)):
            try:
                response, kept = await self._response(item)
            except RolloutError as error:
                return Failed(Failure.of(error))
            try:
                verified = await self._verify(row, response)
                answered = verified.with_fields(kept)
                answer = Answer(200, answered.raw, given=answered)
                outcome = outcome_of(row, answer, self._success_threshold)
                turns = of_earlier_attempt(outcome.turns)
                return msgspec.structs.replace(outcome, turns=turns)
            except RolloutError as error:
                return _failed(Failure.of(error), response, kept)
            except asyncio.CancelledError:
                failure = Failure.make(FailureKind.CANCELLED, "the verification was cancelled")
                return _failed(failure, response, kept)

    async def _response(self, item: WorkItem) -> tuple[msgspec.Raw, dict[str, msgspec.Raw]]:
        try:
            return await asyncio.to_thread(self._stored.response, item.task.index, item.repeat)
        except StoreError as error:
            raise TaskError(str(error)) from error

    async def _verify(self, row: Row, response: msgspec.Raw) -> Row:
        client, jar = self._environment(row).one(), CookieJar()
        seeded = await client.call("/seed_session", row, error=EnvironmentSessionError, jar=jar)
        try:
            if await self._replays(client):
                await _replay(client, jar, row, response)
            return await self._verification(client, jar, row, response)
        except BaseException:
            if CLOSABLE_HEADER in seeded.headers:
                await close_session(client, jar)
            raise

    def _environment(self, row: Row) -> ServerClient:
        agent = agent_name(row)
        name = self._servers.resources_server(agent)
        if name is None:
            raise TaskError(f"the configuration names no resources server for the agent {agent!r}")
        return self._clients(name)

    async def _replays(self, client: ServerClient) -> bool:
        if self._replay_tools is not None:
            return self._replay_tools
        if client.name not in self._stateful:
            answer = await client.call(
                "/healthz", b"", error=VerifierError, method="GET", any_status=True
            )
            health = _OBJECT.decode(answer.body) if answer.ok else {}
            self._stateful[client.name] = health.get("stateful") is not False
        return self._stateful[client.name]


def _failed(failure: Failure, response: msgspec.Raw, kept: Mapping[str, msgspec.Raw]) -> Failed:
    fields = {RESPONSE: response, UNVERIFIED: msgspec.Raw(b"true"), **kept}
    turns = of_earlier_attempt(take_turns(fields))
    return Failed(failure, turns=turns, result=msgspec.Raw(msgspec.json.encode(fields)))


async def _replay(client: ServerClient, jar: CookieJar, row: Row, response: msgspec.Raw) -> None:
    params = row.get(PARAMS, dict[str, Any], {})
    tools = {tool.get("name") for tool in params.get("tools") or () if isinstance(tool, dict)}
    for call, output in _made_calls(Response.of(_OBJECT.decode(response))):
        if call.name not in tools or call.parsed_arguments is None:
            continue
        try:
            await _call(client, jar, call, output)
        except ToolError as error:
            unanswered = isinstance(error.__cause__, NoAnswerError | TimeoutError)
            if unanswered or not _is_error(output):
                raise


async def _call(client: ServerClient, jar: CookieJar, call: FunctionCall, output: object) -> None:
    """Repeat a call that gave this output. Raises ToolError where it is refused only now."""
    arguments = (call.arguments or "{}").encode()
    answer = await client.call(
        f"/{call.name}", arguments, error=ToolError, jar=jar, any_status=True
    )
    # Servers of others write their errors in their own way, but the same one again.
    refused_again = answer.status < 500 and (_is_error(output, "detail") or output == answer.text)
    if not (answer.ok or refused_again):
        said = shorten(answer.text, EXCERPT)
        raise ToolError(f"{client.name} answered /{call.name} with HTTP {answer.status}: {said}")


def _made_calls(response: Response) -> Iterator[tuple[FunctionCall, object]]:
    """The calls that have an output, each with it, in the order of the calls."""
    outputs: defaultdict[str, deque[object]] = defaultdict(deque)
    for item in response.output:
        if item.get("type") == "function_call_output":
            outputs[str(item.get("call_id") or "")].append(item.get("output"))
    for call in response.function_calls:
        if outputs[call.call_id]:
            yield call, outputs[call.call_id].popleft()


def _is_error(output: object, *further: str) -> bool:
    """Whether the output of a call is an object with an error, or with one of further fields."""
    try:
        return isinstance(output, str) and not _OBJECT.decode(output).keys().isdisjoint(
            ("error", *further)
        )
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return False
