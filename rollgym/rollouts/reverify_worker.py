"""The engine's worker that verifies stored rollouts again, without a model.

A verifier may score the state that the tools left in the session. So where the environment has
state, the tool calls of the stored rollout are repeated in their order before it is verified.
"""

import asyncio
from typing import Any

import msgspec

from rollgym.engine import WorkItem
from rollgym.records import (
    EnvironmentSessionError,
    Failed,
    Failure,
    Outcome,
    RolloutError,
    Row,
    TaskError,
    ToolError,
    VerifierError,
)
from rollgym.rollouts.rows import PARAMS, RESPONSE, ROLLOUT_INDEX, agent_name, rollout_row
from rollgym.rollouts.servers import Clients, CollectionServers
from rollgym.rollouts.stored_rollouts import StoredRollouts
from rollgym.rollouts.worker import outcome_of
from rollgym.servers.agent import close_session
from rollgym.servers.client import ServerClient
from rollgym.servers.context import working_for
from rollgym.servers.exchange import CookieJar
from rollgym.servers.resources import CLOSABLE_HEADER
from rollgym.servers.responses import Response
from rollgym.store import StoreError

_OBJECT = msgspec.json.Decoder(dict[str, Any])


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

    async def __call__(self, item: WorkItem, attempt: int, deadline: float) -> Outcome:
        base, number = rollout_row(item.task, item.repeat)
        row = base.with_fields({ROLLOUT_INDEX: number})
        with working_for(f"{item.task.index}/{number}", deadline):
            try:
                return await self._verify(row, await self._response(item))
            except RolloutError as error:
                return Failed(Failure.of(error))

    async def _response(self, item: WorkItem) -> msgspec.Raw:
        try:
            return await asyncio.to_thread(self._stored.response, item.task.index, item.repeat)
        except StoreError as error:
            raise TaskError(str(error)) from error

    async def _verify(self, row: Row, response: msgspec.Raw) -> Outcome:
        client, jar = self._environment(row).one(), CookieJar()
        seeded = await client.call("/seed_session", row.raw, error=EnvironmentSessionError, jar=jar)
        try:
            if await self._replays(client):
                await _replay(client, jar, row, response)
            verified = row.with_fields({RESPONSE: response})
            answer = await client.call("/verify", verified.raw, error=VerifierError, jar=jar)
        except RolloutError:
            if CLOSABLE_HEADER in seeded.headers:
                await close_session(client, jar)
            raise
        return outcome_of(row, answer, self._success_threshold)

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


async def _replay(client: ServerClient, jar: CookieJar, row: Row, response: msgspec.Raw) -> None:
    params = row.get(PARAMS, dict[str, Any], {})
    tools = {tool.get("name") for tool in params.get("tools") or () if isinstance(tool, dict)}
    for call in Response.of(_OBJECT.decode(response)).function_calls:
        if call.name in tools and _is_object(call.arguments):
            arguments = (call.arguments or "{}").encode()
            await client.call(f"/{call.name}", arguments, error=ToolError, jar=jar, any_status=True)


def _is_object(arguments: str) -> bool:
    try:
        _OBJECT.decode(arguments or "{}")
    except msgspec.DecodeError:
        return False
    return True
