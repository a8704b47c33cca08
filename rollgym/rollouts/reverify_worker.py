"""The engine's worker that verifies stored rollouts again, without a model.

A verifier may judge what the tools left behind in the session. So where the environment has state,
the tool calls of the stored rollout are made again in their order before it is asked.
"""

import contextlib
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
from rollgym.rollouts.aggregate import Clients
from rollgym.rollouts.bundle import StoredRollout, stored_rollout
from rollgym.rollouts.fields import PARAMS, RESPONSE, ROLLOUT_INDEX
from rollgym.rollouts.inputs import agent_name
from rollgym.rollouts.roster import Roster
from rollgym.rollouts.worker import outcome_of
from rollgym.servers.agent import CLOSING_TIMEOUT
from rollgym.servers.client import ServerClient
from rollgym.servers.context import after_the_deadline, working_for
from rollgym.servers.exchange import CookieJar
from rollgym.servers.resources import CLOSABLE_HEADER
from rollgym.servers.responses import Response

_OBJECT = msgspec.json.Decoder(dict[str, Any])


class ReverifyWorker:
    """`replay_tools` says whether to make the tool calls again; None asks the environment."""

    def __init__(
        self,
        clients: Clients,
        roster: Roster,
        *,
        success_threshold: float,
        replay_tools: bool | None = None,
    ) -> None:
        self._clients = clients
        self._roster = roster
        self._success_threshold = success_threshold
        self._replay_tools = replay_tools
        self._stateful: dict[str, bool] = {}

    async def __call__(self, item: WorkItem, attempt: int, deadline: float) -> Outcome:
        base, stored = stored_rollout(item.task, item.repeat)
        row = base.with_fields({ROLLOUT_INDEX: stored.repeat})
        with working_for(f"{item.task.index}/{stored.repeat}", deadline):
            try:
                return await self._verify(row, stored)
            except RolloutError as error:
                return Failed(Failure.of(error))

    async def _verify(self, row: Row, stored: StoredRollout) -> Outcome:
        client, jar = self._environment(row).one(), CookieJar()
        seeded = await client.call("/seed_session", row.raw, error=EnvironmentSessionError, jar=jar)
        try:
            if await self._replays(client):
                await _replay(client, jar, row, stored)
            verified = row.with_fields({RESPONSE: stored.response})
            answer = await client.call("/verify", verified.raw, error=VerifierError, jar=jar)
        except RolloutError:
            if CLOSABLE_HEADER in seeded.headers:
                await _close(client, jar)
            raise
        return outcome_of(row, answer, self._success_threshold)

    def _environment(self, row: Row) -> ServerClient:
        agent = agent_name(row)
        name = self._roster.resources_server(agent)
        if name is None:
            raise TaskError(f"the configuration names no resources server for the agent {agent!r}")
        return self._clients(name)

    async def _replays(self, client: ServerClient) -> bool:
        if self._replay_tools is not None:
            return self._replay_tools
        if client.name not in self._stateful:
            answer = await client.exchange("/healthz", b"", error=VerifierError, method="GET")
            health = _OBJECT.decode(answer.body) if answer.ok else {}
            self._stateful[client.name] = health.get("stateful") is not False
        return self._stateful[client.name]


async def _replay(client: ServerClient, jar: CookieJar, row: Row, stored: StoredRollout) -> None:
    params = row.get(PARAMS, dict[str, Any], {})
    tools = {tool.get("name") for tool in params.get("tools") or () if isinstance(tool, dict)}
    for call in Response.of(_OBJECT.decode(stored.response)).function_calls:
        if call.name in tools and _is_object(call.arguments):
            arguments = (call.arguments or "{}").encode()
            await client.exchange(f"/{call.name}", arguments, error=ToolError, jar=jar)


async def _close(client: ServerClient, jar: CookieJar) -> None:
    """Give the session back; a server that cannot take it will let it expire."""
    with after_the_deadline(), contextlib.suppress(RolloutError):
        await client.exchange(
            "/close_session",
            b"{}",
            error=EnvironmentSessionError,
            jar=jar,
            within=CLOSING_TIMEOUT,
        )


def _is_object(arguments: str) -> bool:
    try:
        _OBJECT.decode(arguments or "{}")
    except msgspec.DecodeError:
        return False
    return True
