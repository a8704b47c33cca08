"""Agent servers: the loop between a model and an environment.

A subclass implements `responses`: the loop from the parameters to the whole trajectory as one
Responses object. `run` is the same for all agents: seed the session, run the loop, verify.
"""

import asyncio
import contextlib
import time
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from pydantic import Field

from rollgym.records import (
    AgentError,
    EnvironmentSessionError,
    RolloutError,
    Row,
    RowError,
    TaskError,
    VerifierError,
    boundary,
)
from rollgym.servers.client import RecoveryWait, ServerClient
from rollgym.servers.context import after_the_deadline
from rollgym.servers.episode import SPANS_HEADER, Episode, encode_spans
from rollgym.servers.exchange import Answer, CookieJar, Request
from rollgym.servers.resources import CLOSABLE_HEADER
from rollgym.servers.server import (
    Server,
    ServerConfig,
    ServerDirectory,
    ServerKind,
    ServerRef,
    decode_object,
)
from rollgym.store.settings import Setting

PHASES_HEADER = "x-rollgym-phases"
CLOSING_TIMEOUT = 5.0
AGGREGATE_TIMEOUT = 600.0


class AgentConfig(ServerConfig):
    """The settings of every agent: its servers, and timeouts of their calls.

    `server_patience` is how many seconds rollouts wait for an environment that does not answer.
    """

    resources_server: ServerRef
    model_server: ServerRef
    # The caller's deadline decides how long a rollout may take.
    request_timeout: Annotated[float, Setting.TIMING] = Field(default=86_400.0, gt=0)
    model_timeout: Annotated[float, Setting.TIMING] = Field(default=1800.0, gt=0)
    tool_timeout: Annotated[float, Setting.TIMING] = Field(default=300.0, gt=0)
    seed_timeout: Annotated[float, Setting.TIMING] = Field(default=300.0, gt=0)
    verify_timeout: Annotated[float, Setting.TIMING] = Field(default=600.0, gt=0)
    server_patience: Annotated[float, Setting.TIMING] = Field(default=60.0, ge=0)


class AgentServer(Server):
    """Base of agents."""

    kind = ServerKind.AGENT
    config: AgentConfig

    def __init__(
        self, name: str, config: ServerConfig, directory: ServerDirectory | None = None
    ) -> None:
        super().__init__(name, config, directory)
        self._recovery = RecoveryWait(self.config.server_patience)
        self.route("POST", "/v1/responses", self._answer_responses)
        self.route("POST", "/run", self._answer_run)
        self.route("POST", "/aggregate_metrics", self._answer_aggregate_metrics)

    async def responses(self, params: dict[str, Any], episode: Episode) -> dict[str, Any]:
        """Work on the task of `params` to its end; returns the trajectory as a Responses object."""
        raise NotImplementedError(f"{type(self).__name__} has no responses")

    def episode(self, cookies: Mapping[str, str] | None = None) -> Episode:
        return Episode(
            self._client(self.config.model_server),
            self._client(self.config.resources_server),
            tool_timeout=self.config.tool_timeout,
            model_timeout=self.config.model_timeout,
            cookies=cookies,
        )

    async def run(self, row: Row, episode: Episode) -> bytes:
        """Run one rollout; returns the verified row."""
        try:
            params = row.get("responses_create_params", dict[str, Any])
        except RowError as error:
            raise TaskError(str(error)) from error
        if params is None:
            raise TaskError("the row has no `responses_create_params`")
        await self._seed(row, episode)
        try:
            with boundary(AgentError):
                response = await self.responses(params, episode)
                return await self._verify(row, response, episode)
        except BaseException as error:
            if isinstance(error, RolloutError) and error.partial is None:
                error.partial = _partial(episode)
            if episode.closable:
                await close_session(episode.resources, episode.resources_jar)
            raise

    async def _seed(self, row: Row, episode: Episode) -> None:
        began = time.perf_counter()
        try:
            answer = await episode.resources.call(
                "/seed_session",
                row.raw,
                error=EnvironmentSessionError,
                jar=episode.resources_jar,
                within=self.config.seed_timeout,
            )
        except RolloutError as error:
            await self._recovery.wait_for(episode.resources, error)
            raise
        episode.closable = CLOSABLE_HEADER in answer.headers
        episode.spent("seed", began)

    async def _verify(self, row: Row, response: dict[str, Any], episode: Episode) -> bytes:
        began = time.perf_counter()
        sent = row.with_fields({"response": response}).raw
        answer = await episode.resources.call(
            "/verify",
            sent,
            error=VerifierError,
            jar=episode.resources_jar,
            within=self.config.verify_timeout,
        )
        episode.spent("verify", began)
        if answer.body.startswith(sent[:-1]):
            return answer.body  # the row with further fields
        return _with_response(answer.body, response)

    def _client(self, reference: ServerRef) -> ServerClient:
        try:
            return self.directory.client(reference.name).one()
        except KeyError as error:
            raise AgentError(f"{self.name} cannot find the server {reference.name}") from error

    # Handlers of the routes.

    async def _answer_run(self, request: Request) -> Answer:
        try:
            row = Row.parse(request.body)
        except RowError as error:
            raise TaskError(f"the row is not a JSON object: {error}") from error
        episode = self.episode()
        body = await self.run(row, episode)
        phases = msgspec.json.encode(episode.phases).decode()
        spans = encode_spans(episode.spans())
        return Answer(200, body, headers={PHASES_HEADER: phases, SPANS_HEADER: spans})

    async def _answer_responses(self, request: Request) -> Answer:
        """The loop alone, for callers that seed and verify; their cookies are passed on."""
        params, episode = decode_object(request.body), self.episode(request.cookies)
        with boundary(AgentError):
            body = msgspec.json.encode(await self.responses(params, episode))
        cookies = episode.resources_jar.cookies.items()
        given = {name: value for name, value in cookies if request.cookies.get(name) != value}
        return Answer(200, body, cookies=given)

    async def _answer_aggregate_metrics(self, request: Request) -> Answer:
        """The aggregate metrics come from the environment."""
        answer = await self._client(self.config.resources_server).call(
            "/aggregate_metrics", request.body, error=AgentError, within=AGGREGATE_TIMEOUT
        )
        return Answer(200, answer.body)


async def close_session(client: ServerClient, jar: CookieJar) -> None:
    """Close a session that is not verified; at a server that cannot close it, it expires."""
    with after_the_deadline(), contextlib.suppress(RolloutError):
        closing = client.call(
            "/close_session",
            b"{}",
            error=EnvironmentSessionError,
            jar=jar,
            within=CLOSING_TIMEOUT,
        )
        await asyncio.shield(closing)


def _partial(episode: Episode) -> bytes | None:
    """The trajectory so far, for an episode that failed; None where it is empty."""
    if not episode.output:
        return None
    usage = episode.usage_object()
    response = {"status": "incomplete", "output": episode.output, "usage": usage}
    spent = {"phases": episode.phases, "spans": episode.spans()}
    try:
        return msgspec.json.encode({"response": response, **spent})
    except (TypeError, ValueError):  # it must not hide the failure itself
        return None


def _with_response(verified: bytes, response: dict[str, Any]) -> bytes:
    """The verified row, with the response where the verifier did not repeat it."""
    try:
        row = Row.parse(verified)
    except RowError as error:
        raise VerifierError(f"the verified row is not a JSON object: {error}") from error
    return verified if "response" in row.fields else row.with_fields({"response": response}).raw
