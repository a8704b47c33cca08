"""Resources servers: an environment's tools, sessions and verifier.

An author writes a class with `@tool` methods, `seed_session` where there is state, and `verify`.
The base class checks rows against their type, keeps and releases sessions, adds the verdict to the
row, and turns every error into a typed failure or an answer.
"""

import asyncio
import re
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Annotated, Any, Generic, TypeVar, cast, get_args, get_origin

import msgspec
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rollgym.metrics.aggregate import default_agent_metrics
from rollgym.records import (
    EnvironmentSessionError,
    Failure,
    RolloutError,
    Row,
    RowError,
    TaskError,
    ToolError,
    VerifierError,
    boundary,
)
from rollgym.servers.exchange import (
    Answer,
    RefusedRequestError,
    Request,
    error_answer,
    failure_answer,
    json_answer,
)
from rollgym.servers.responses import Response
from rollgym.servers.scoring import Verdict, answer_aggregate
from rollgym.servers.server import (
    Server,
    ServerConfig,
    ServerDirectory,
    ServerKind,
    is_cancelled,
)
from rollgym.servers.sessions import Session, SessionCloser, Sessions
from rollgym.servers.tool_results import result_answer
from rollgym.servers.tools import (
    RESERVED_NAMES,
    ToolDefinitionError,
    ToolMethod,
    ToolRejection,
    rejection_in,
    tools_of,
)
from rollgym.store.settings import Setting

EXPIRY_INTERVAL = 30.0
CLOSABLE_HEADER = "x-rollgym-closable"
"""Says that the server has /close_session, which is not part of the wire contract."""
PARALLEL_HEADER = "x-rollgym-parallel-tools"
"""Names the tools that are safe to run in parallel, separated by commas."""
_NOT_IN_COOKIE_NAMES = re.compile(r"[^A-Za-z0-9_-]")
_NO_SESSION = nullcontext()
_SEEDING, _IN_TOOL = boundary(EnvironmentSessionError), boundary(ToolError)
_VERIFYING = boundary(VerifierError)


class TaskRow(BaseModel):
    """Base of the types of rows; fields that the type does not declare are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class ResourcesConfig(ServerConfig):
    """The settings of every resources server."""

    session_lifetime: Annotated[float, Setting.TIMING] = Field(default=3600.0, gt=0)
    max_sessions: Annotated[int, Setting.TIMING] = Field(default=100_000, gt=0)


T = TypeVar("T", bound=TaskRow)
S = TypeVar("S")


class ResourcesServer(Server, Generic[T, S]):
    """Base of environments: `class Weather(ResourcesServer[WeatherTask, None])`.

    The parameters are the type of a row and that of a session's state; None where there is none.
    """

    kind = ServerKind.RESOURCES
    config: ResourcesConfig
    _task_type: type[Any] = TaskRow
    _task_fields: tuple[str, ...] | None = ()
    _stateful = False
    _tools: dict[str, ToolMethod]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for base in getattr(cls, "__orig_bases__", ()):
            origin, arguments = get_origin(base), get_args(base)
            if not (isinstance(origin, type) and issubclass(origin, ResourcesServer)):
                continue
            if len(arguments) == 2 and isinstance(arguments[0], type):
                cls._task_type = arguments[0]
                cls._task_fields = _plain_names(arguments[0])
                cls._stateful = arguments[1] is not type(None) and arguments[1] is not None
        cls._tools = tools_of(cls)
        for method in cls._tools.values():
            if method.name in RESERVED_NAMES or hasattr(ResourcesServer, method.name):
                raise ToolDefinitionError(
                    f"a tool cannot be called {method.name}: every server uses that name for "
                    "something else"
                )
            if method.wants_state and not cls._stateful:
                raise ToolDefinitionError(
                    f"the tool {method.name} has the argument `state`, but {cls.__name__} has no "
                    "state; name its type, as in ResourcesServer[Task, State]"
                )

    def __init__(
        self, name: str, config: ServerConfig, directory: ServerDirectory | None = None
    ) -> None:
        super().__init__(name, config, directory)
        self._parallel = ",".join(each.name for each in self._tools.values() if each.parallel)
        self._cookie = f"session_{_NOT_IN_COOKIE_NAMES.sub('_', name)}"
        self._sessions: Sessions[S] = Sessions(
            name, self.config.session_lifetime, self.config.max_sessions
        )
        self._expiring: asyncio.Task[None] | None = None
        closes = self._stateful and type(self).close_session is not ResourcesServer.close_session
        self._closer: SessionCloser[S] = SessionCloser(name, self.close_session if closes else None)
        self.route("POST", "/seed_session", self._answer_seed_session)
        self.route("POST", "/close_session", self._answer_close_session)
        self.route("POST", "/verify", self._answer_verify)
        self.route("POST", "/aggregate_metrics", self._answer_aggregate_metrics)
        for method in self._tools.values():
            self.route("POST", f"/{method.name}", self._tool_handler(method))

    # Written by authors.

    async def seed_session(self, task: T) -> S:
        """Make the state of a new session. Required for an environment with state."""
        if self._stateful:
            raise NotImplementedError(f"{type(self).__name__} has a state, but no seed_session")
        return cast("S", None)

    async def close_session(self, state: S) -> None:
        """Release resources of a session's state, where there are any."""

    async def verify(self, task: T, response: Response, state: S) -> Verdict:
        """Score a rollout. Required."""
        raise NotImplementedError(f"{type(self).__name__} has no verify")

    def compute_metrics(self, tasks: list[list[dict[str, Any]]]) -> dict[str, Any]:
        """Further metrics of a whole collection, from its rows grouped by task."""
        return default_agent_metrics(tasks)

    def get_key_metrics(self, agent_metrics: dict[str, Any]) -> dict[str, Any] | None:
        """The most important metrics; None for the default choice."""
        return None

    # Start and end.

    async def start(self) -> None:
        await super().start()
        self._expiring = asyncio.create_task(self._expire_sessions(), name=f"{self.name} sessions")

    async def close(self) -> None:
        if self._expiring:
            self._expiring.cancel()
            await asyncio.gather(self._expiring, return_exceptions=True)
        await self._closer.close_all(self._sessions.drain())
        await self._closer.finish()
        await super().close()

    async def _expire_sessions(self) -> None:
        while True:
            await asyncio.sleep(EXPIRY_INTERVAL)
            await self._closer.close_all(self._sessions.expire())

    def health(self) -> dict[str, Any]:
        return {
            **super().health(),
            "stateful": self._stateful,
            "sessions": len(self._sessions),
            "tools": list(self._tools),
        }

    def kept_cookies(self, cookies: Mapping[str, str]) -> Mapping[str, str]:
        """The cookie of an open session: some agents keep only the cookies of the last answer."""
        cookie = cookies.get(self._cookie, "")
        return {self._cookie: cookie} if self._sessions.is_open(cookie) else {}

    # Handlers of the routes.

    async def _answer_seed_session(self, request: Request) -> Answer:
        task = self._task(_row(request))
        if self._sessions.full:
            await self._closer.close_all(self._sessions.expire())
            self._sessions.check_capacity()
        with _SEEDING:
            state = await self.seed_session(task)
        headers = {PARALLEL_HEADER: self._parallel} if self._parallel else {}
        if not self._stateful:
            return Answer(200, b"{}", headers=headers)
        try:
            cookies = {self._cookie: self._sessions.open(state)}
        except EnvironmentSessionError:
            await self._closer.close_all([Session(state)])
            raise
        return Answer(200, b"{}", cookies=cookies, headers={CLOSABLE_HEADER: "1", **headers})

    async def _answer_close_session(self, request: Request) -> Answer:
        await self._release(request)
        return Answer(200, b"{}", cookies={self._cookie: ""})

    def _tool_handler(self, method: ToolMethod) -> Any:
        async def handle(request: Request) -> Answer:
            try:
                with _IN_TOOL:
                    try:
                        if not method.wants_state:
                            return result_answer(await method.call(self, request.body, None))
                        async with self._session(request) as state:
                            return result_answer(await method.call(self, request.body, state))
                    except (ToolRejection, ExceptionGroup) as error:
                        rejection = rejection_in(error)
                        if rejection is None:
                            raise
                        return error_answer(400, str(rejection))
                    except RefusedRequestError as error:
                        return error_answer(error.status, str(error))
                    except (asyncio.CancelledError, SystemExit) as error:
                        if isinstance(error, asyncio.CancelledError) and is_cancelled():
                            raise
                        raise RuntimeError(f"the tool ended with {type(error).__name__}") from error
            except RolloutError as error:
                return self._failed_call(request, error)

        return handle

    def _failed_call(self, request: Request, error: RolloutError) -> Answer:
        """Remember the failure of a tool, so that the rollout gets no verdict.

        Without state there is no session yet; one is opened for the failure alone.
        """
        cookie = request.cookies.get(self._cookie, "")
        if not (self._stateful or self._sessions.is_open(cookie) or self._sessions.full):
            cookie = self._sessions.open(cast("S", None))
        self._sessions.fail(cookie, Failure.of(error))
        if error.unexpected is not None:
            self.log_bug(request, error.unexpected)
        answer = failure_answer(error)
        kept = self.kept_cookies({self._cookie: cookie})
        return msgspec.structs.replace(answer, cookies=kept) if kept else answer

    async def _answer_verify(self, request: Request) -> Answer:
        row = _row(request)
        try:
            response = row.get("response", dict[str, Any])
        except RowError as error:
            raise RefusedRequestError(400, f"the row to verify: {error}") from error
        if response is None:
            raise RefusedRequestError(400, "the row to verify has no `response`")
        task = self._task(row)
        async with self._session(request) as state:
            self._sessions.check_failure(request.cookies.get(self._cookie, ""))
            with _VERIFYING:
                verdict = await self.verify(task, Response.of(response), state)
                answer = row.with_fields(verdict.as_fields())
        if not self._stateful:
            return Answer(200, answer.raw, given=answer)
        await self._release(request)
        return Answer(200, answer.raw, cookies={self._cookie: ""}, given=answer)

    async def _answer_aggregate_metrics(self, request: Request) -> Answer:
        result = await asyncio.to_thread(
            answer_aggregate, request.body, self.compute_metrics, self.get_key_metrics
        )
        return json_answer(result)

    async def _release(self, request: Request) -> None:
        session = self._sessions.close(request.cookies.get(self._cookie))
        if session is not None:
            await self._closer.close_all([session])

    def _task(self, row: Row) -> T:
        """The row as its type; only the declared fields are read where that is possible."""
        raw = row.raw
        if self._task_fields is not None:
            fields = row.fields
            raw = msgspec.json.encode({n: fields[n] for n in self._task_fields if n in fields})
        try:
            task: T = self._task_type.model_validate_json(raw)
        except ValidationError as error:
            problems = "; ".join(
                f"{'.'.join(map(str, problem['loc'])) or 'the row'}: {problem['msg']}"
                for problem in error.errors(include_url=False, include_input=False)
            )
            raise TaskError(
                f"the row does not match `{self._task_type.__name__}` of {self.name}: {problems}"
            ) from error
        return task

    def _session(self, request: Request) -> AbstractAsyncContextManager[Any]:
        """A context with the state for one call, which waits for the calls before it."""
        if not self._stateful:
            return _NO_SESSION
        return self._sessions.using(request.cookies.get(self._cookie))


def _row(request: Request) -> Row:
    try:
        return request.row
    except RowError as error:
        raise RefusedRequestError(400, f"the row is not a JSON object: {error}") from error


def _plain_names(task: type[TaskRow]) -> tuple[str, ...] | None:
    """The fields that a row's type reads; None where it may read others or uses other names."""
    fields = task.model_fields
    renamed = any(field.alias or field.validation_alias for field in fields.values())
    reads_all = task.model_config.get("extra") != "ignore" or any(
        validator.info.mode != "after"
        for validator in task.__pydantic_decorators__.model_validators.values()
    )
    return None if renamed or reads_all else tuple(fields)
