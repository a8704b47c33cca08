"""Agent servers: the loop between a model and an environment.

A subclass implements `responses`: the loop from the parameters to the whole trajectory as one
Responses object. `run` is the same for all agents: seed the session, run the loop, verify.
"""

import asyncio
import contextlib
import time
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from pydantic import Field

from rollgym.records import (
    NO_USAGE,
    AgentError,
    DeadlineError,
    EnvironmentSessionError,
    ModelContextError,
    RolloutError,
    Row,
    RowError,
    TaskError,
    boundary,
)
from rollgym.records.tokens import ROW_FIELD
from rollgym.records.version import TURNS_FIELD
from rollgym.servers.client import NO_COOKIES, RecoveryWait, ServerClient
from rollgym.servers.context import (
    after_the_deadline,
    current_rollout,
    ending_time,
    report_progress,
    seconds_left,
)
from rollgym.servers.episode import CONTEXT_OVERFLOW, Episode
from rollgym.servers.exchange import Answer, CookieJar, Request
from rollgym.servers.limit import Limit
from rollgym.servers.report import EpisodeReport, fit_in_header
from rollgym.servers.resources import CLOSABLE_HEADER, PARALLEL_HEADER
from rollgym.servers.server import (
    Server,
    ServerConfig,
    ServerDirectory,
    ServerKind,
    ServerRef,
    decode_object,
)
from rollgym.servers.spans import wire_spans
from rollgym.servers.verification import KEPT, Verification
from rollgym.store.settings import Setting

UNVERIFIED = "unverified"
"""In the failure of a rollout: its response is finished and only lacks a verdict."""
CLOSING_TIMEOUT = 5.0
CLOSING_WAIT = 1.0
AGGREGATE_TIMEOUT = 600.0
_IN_AGENT = boundary(AgentError)


class AgentConfig(ServerConfig):
    """The settings of every agent: its servers, what errors mean, and timeouts of their calls.

    `verify_attempts` is how often a finished response is verified where that fails.
    `server_patience` is how many seconds rollouts wait for an environment that does not answer.
    """

    resources_server: ServerRef
    model_server: ServerRef
    parallel_tool_calls: bool = False
    on_tool_server_error: Literal["fail", "show"] = "fail"
    on_context_overflow: Literal["truncate", "fail"] = "truncate"
    # The caller's deadline decides how long a rollout may take.
    request_timeout: Annotated[float, Setting.TIMING] = Field(default=86_400.0, gt=0)
    model_timeout: Annotated[float, Setting.TIMING] = Field(default=1800.0, gt=0)
    tool_timeout: Annotated[float, Setting.TIMING] = Field(default=300.0, gt=0)
    seed_timeout: Annotated[float, Setting.TIMING] = Field(default=300.0, gt=0)
    verify_timeout: Annotated[float, Setting.TIMING] = Field(default=600.0, gt=0)
    verify_attempts: Annotated[int, Setting.TIMING] = Field(default=4, ge=1)
    server_patience: Annotated[float, Setting.TIMING] = Field(default=60.0, ge=0)


class AgentServer(Server):
    """Base of agents."""

    kind = ServerKind.AGENT
    config: AgentConfig

    def __init__(
        self, name: str, config: ServerConfig, directory: ServerDirectory | None = None
    ) -> None:
        super().__init__(name, config, directory)
        longest = self.config.request_timeout
        self._longest_of_all = longest - ending_time(longest)
        self._recovery = RecoveryWait(self.config.server_patience)
        self._verification = Verification(
            self.config.verify_attempts, self.config.verify_timeout, self._recovery
        )
        self.route("POST", "/v1/responses", self._answer_responses)
        self.route("POST", "/run", self._answer_run)
        self.route("POST", "/aggregate_metrics", self._answer_aggregate_metrics)

    async def responses(self, params: dict[str, Any], episode: Episode) -> dict[str, Any]:
        """Work on the task of `params` to its end; returns the trajectory as a Responses object."""
        raise NotImplementedError(f"{type(self).__name__} has no responses")

    def episode(
        self, cookies: Mapping[str, str] | None = None, *, takes_tokens: bool = False
    ) -> Episode:
        return Episode(
            self._client(self.config.model_server),
            self._client(self.config.resources_server, cookies or NO_COOKIES),
            tool_timeout=self.config.tool_timeout,
            model_timeout=self.config.model_timeout,
            cookies=cookies,
            parallel=self.config.parallel_tool_calls,
            show_server_errors=self.config.on_tool_server_error == "show",
            takes_tokens=takes_tokens,
        )

    async def run(self, row: Row, episode: Episode) -> Row:
        """Run one rollout; returns the verified row.

        An error carries what there is of the rollout, also when its time is over: the agent ends it
        early enough to answer.
        """
        report_progress(lambda: partial_of(episode))
        try:
            try:
                loop = asyncio.get_running_loop()
                with Limit(self._longest_run(loop), loop):
                    return await self._run(row, episode)
            except TimeoutError as error:
                raise self._out_of_time(episode) from error
        except RolloutError as error:
            if error.partial is None:
                error.partial = partial_of(episode)
            raise

    async def _run(self, row: Row, episode: Episode) -> Row:
        try:
            params = row.get("responses_create_params", dict[str, Any])
        except RowError as error:
            raise TaskError(str(error)) from error
        if params is None:
            raise TaskError("the row has no `responses_create_params`")
        episode.row = row
        await self._seed(row, episode)
        try:
            with _IN_AGENT:
                episode.response = await self._trajectory(params, episode)
                return await self._verify(row, episode.response, episode)
        except BaseException:
            if episode.closable:
                await close_session(episode.resources, episode.resources_jar)
            raise

    async def _trajectory(self, params: dict[str, Any], episode: Episode) -> dict[str, Any]:
        """The whole trajectory; one that no longer fits into the model's context ends there.

        Where the prompt of the task alone does not fit, there is nothing to verify.
        """
        try:
            with _IN_AGENT:
                response = await self.responses(params, episode)
        except ModelContextError:
            if self.config.on_context_overflow == "fail" or not episode.output:
                raise
            episode.stopped_by = CONTEXT_OVERFLOW
            response = episode.finish()
        return episode.annotate(response)

    def _longest_run(self, loop: asyncio.AbstractEventLoop) -> float:
        """Seconds for a rollout: calls end at its deadline, other work a moment later."""
        left = seconds_left(self.config.request_timeout, loop)
        return min(left + ending_time(left) / 2, self._longest_of_all)

    def _out_of_time(self, episode: Episode) -> RolloutError:
        longest = self.config.request_timeout
        detail = (
            f"{self.name} did not answer /run within {longest:g} s, its request_timeout"
            if seconds_left(longest) > 0
            else f"the loop of {self.name} did not end before the deadline of the rollout"
        )
        if episode.response is None:
            return DeadlineError(detail)
        return DeadlineError(f"{detail} ({KEPT})", retryable=False)

    async def _seed(self, row: Row, episode: Episode) -> None:
        began = time.perf_counter()
        try:
            answer = await self._seeded(row, episode)
        except RolloutError as error:
            await self._recovery.wait_for(episode.resources.whole, error)
            raise
        finally:
            episode.spent("seed", began)
        episode.closable = CLOSABLE_HEADER in answer.headers
        if marked := answer.headers.get(PARALLEL_HEADER):
            episode.parallel_tools = frozenset(marked.split(","))

    async def _seeded(self, row: Row, episode: Episode) -> Answer:
        """Seed a session, at another replica where the first one is not there."""
        while True:
            try:
                return await episode.resources.call(
                    "/seed_session",
                    row,
                    error=EnvironmentSessionError,
                    jar=episode.resources_jar,
                    within=self.config.seed_timeout,
                )
            except RolloutError:
                other = episode.resources.whole.one()
                if not episode.resources.is_lost or other.is_lost:
                    raise
                episode.resources = other

    async def _verify(self, row: Row, response: dict[str, Any], episode: Episode) -> Row:
        began = time.perf_counter()
        try:
            return await self._verification(episode.resources, episode.resources_jar, row, response)
        finally:
            episode.spent("verify", began)

    def _client(
        self, reference: ServerRef, cookies: Mapping[str, str] = NO_COOKIES
    ) -> ServerClient:
        try:
            return self.directory.client(reference.name).one(cookies)
        except KeyError as error:
            raise AgentError(f"{self.name} cannot find the server {reference.name}") from error

    # Handlers of the routes.

    async def _answer_run(self, request: Request) -> Answer:
        try:
            row = request.row
        except RowError as error:
            raise TaskError(f"the row is not a JSON object: {error}") from error
        # A caller of another program reads tokens from the items, where NeMo Gym has them.
        episode = self.episode(takes_tokens=bool(current_rollout()))
        verified = await self.run(row, episode)
        fields = dict(episode.row_fields)
        if tokens := episode.token_turns:
            fields[ROW_FIELD] = tokens
        turns = tuple(episode.turns)
        in_header = fit_in_header(turns)
        if not in_header:
            fields[TURNS_FIELD] = turns
        if fields:
            verified = verified.with_fields(fields)
        report = EpisodeReport(
            episode.phases,
            episode.spans(),
            episode.models.all,
            turns if in_header else None,
            episode.seconds,
        )
        return Answer(200, verified.raw, headers=report, given=verified)

    async def _answer_responses(self, request: Request) -> Answer:
        """The loop alone, for callers that seed and verify.

        Their cookies are passed on and repeated: some keep only the cookies of the last answer.
        """
        params, episode = decode_object(request.body), self.episode(request.cookies)
        with _IN_AGENT:
            body = msgspec.json.encode(await self._trajectory(params, episode))
        return Answer(200, body, cookies=dict(episode.resources_jar.cookies))

    async def _answer_aggregate_metrics(self, request: Request) -> Answer:
        """The aggregate metrics come from the environment."""
        answer = await self._client(self.config.resources_server).call(
            "/aggregate_metrics", request.body, error=AgentError, within=AGGREGATE_TIMEOUT
        )
        return Answer(200, answer.body)


_CLOSING: set[asyncio.Future[None]] = set()
"""Sessions that are being closed; the event loop itself holds tasks only weakly."""


async def close_session(client: ServerClient, jar: CookieJar) -> None:
    """Close a session that is not verified; at a server that cannot close it, it expires.

    The closing goes on when it takes longer than a moment, or when the caller is cancelled.
    """
    with after_the_deadline():
        closing = asyncio.ensure_future(_close(client, jar))
    _CLOSING.add(closing)
    closing.add_done_callback(_CLOSING.discard)
    await asyncio.wait({closing}, timeout=CLOSING_WAIT)


async def _close(client: ServerClient, jar: CookieJar) -> None:
    with contextlib.suppress(RolloutError):
        await client.call(
            "/close_session",
            b"{}",
            error=EnvironmentSessionError,
            jar=jar,
            within=CLOSING_TIMEOUT,
        )


def partial_of(episode: Episode) -> bytes | None:
    """What there is of an episode that failed, as JSON: its response, times and calls of models.

    A response that is finished and only lacks a verdict is marked as `unverified`.
    """
    kept: dict[str, Any] = {}
    if episode.response is not None:
        kept = {"response": episode.response, UNVERIFIED: True}
    elif episode.output or episode.usage != NO_USAGE:
        usage = episode.usage_object()
        response = {"status": "incomplete", "output": episode.output, "usage": usage}
        kept = {"response": episode.annotate(response)}
    if kept:
        kept |= episode.row_fields
    if kept and (tokens := episode.token_turns):
        kept[ROW_FIELD] = tokens
    spent: dict[str, Any] = {}
    if episode.phases:
        spent = {"phases": episode.phases, "spans": wire_spans(episode.spans())}
        if models := episode.models.all:
            spent["models"] = models
        if turns := episode.turns:
            spent |= {TURNS_FIELD: turns, "seconds": episode.seconds}
    for part in (kept | spent, spent):
        try:
            return msgspec.json.encode(part) if part else None
        except (TypeError, ValueError):  # it must not hide the failure itself
            continue
    return None
