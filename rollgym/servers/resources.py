"""Resources servers: an environment's tools, sessions and verifier.

An author writes a class with `@tool` methods, `seed_session` where there is state, and `verify`.
The rest is here: the row checked against its type, the session kept and released, the verdict added
to the row, and every way to go wrong given its name.
"""

import asyncio
import re
from contextlib import AbstractContextManager, nullcontext
from typing import Annotated, Any, Generic, TypeVar, cast, get_args, get_origin

import msgspec
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rollgym.metrics.aggregate import default_agent_metrics
from rollgym.records import (
    EnvironmentSessionError,
    RolloutError,
    Row,
    RowError,
    TaskError,
    VerifierError,
    boundary,
)
from rollgym.records.failure import shorten
from rollgym.servers.closing import Closing
from rollgym.servers.exchange import Answer, RefusedRequestError, Request, json_answer
from rollgym.servers.hooks import answer_aggregate
from rollgym.servers.responses import Response
from rollgym.servers.server import Server, ServerConfig, ServerDirectory, ServerKind
from rollgym.servers.sessions import Sessions
from rollgym.servers.tools import (
    RESERVED_NAMES,
    ToolDefinitionError,
    ToolMethod,
    ToolRejection,
    tools_of,
)
from rollgym.servers.verdict import Verdict
from rollgym.store.settings import Setting

HOUSEKEEPING_INTERVAL = 30.0
CLOSABLE_HEADER = "x-rollgym-closable"
"""Says that a session may be given back with /close_session, which not every server has."""
_NO_NAME = re.compile(r"[^A-Za-z0-9_-]")
_NO_SESSION = nullcontext()


class TaskRow(BaseModel):
    """Base of the types that rows are checked against; fields it does not name are passed over."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class ResourcesConfig(ServerConfig):
    """What every resources server can be told."""

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
    _task_type: type[TaskRow] = TaskRow
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
                    f"a tool cannot be called {method.name}: every server has something else by "
                    "that name"
                )
            if method.wants_state and not cls._stateful:
                raise ToolDefinitionError(
                    f"the tool {method.name} takes a state, but {cls.__name__} has none: name its "
                    "type, as in ResourcesServer[Task, State]"
                )

    def __init__(
        self, name: str, config: ServerConfig, directory: ServerDirectory | None = None
    ) -> None:
        super().__init__(name, config, directory)
        self._cookie = f"session_{_NO_NAME.sub('_', name)}"
        self._sessions: Sessions[S] = Sessions(
            name, self.config.session_lifetime, self.config.max_sessions
        )
        self._housekeeping: asyncio.Task[None] | None = None
        holds = type(self).close_session is not ResourcesServer.close_session
        self._closing: Closing[S] = Closing(name, self.close_session if holds else None)
        self.route("POST", "/seed_session", self._answer_seed_session)
        self.route("POST", "/close_session", self._answer_close_session)
        self.route("POST", "/verify", self._answer_verify)
        self.route("POST", "/aggregate_metrics", self._answer_aggregate_metrics)
        for method in self._tools.values():
            self.route("POST", f"/{method.name}", self._tool_handler(method))

    # What an author writes.

    async def seed_session(self, task: T) -> S:
        """Make the state of a new session. To be written wherever there is a state."""
        if self._stateful:
            raise NotImplementedError(f"{type(self).__name__} has a state, but no seed_session")
        return cast("S", None)

    async def close_session(self, state: S) -> None:
        """Let go of what a session's state holds, if that needs more than forgetting it."""

    async def verify(self, task: T, response: Response, state: S) -> Verdict:
        """Score a rollout. To be written always."""
        raise NotImplementedError(f"{type(self).__name__} has no verify")

    def compute_metrics(self, tasks: list[list[dict[str, Any]]]) -> dict[str, Any]:
        """Further numbers for the whole collection, from its rows grouped by task."""
        return default_agent_metrics(tasks)

    def get_key_metrics(self, agent_metrics: dict[str, Any]) -> dict[str, Any] | None:
        """The numbers to look at first; None leaves the usual choice."""
        return None

    # The life of the server.

    async def start(self) -> None:
        await super().start()
        self._housekeeping = asyncio.create_task(self._keep_house(), name=f"{self.name} sessions")

    async def close(self) -> None:
        if self._housekeeping:
            self._housekeeping.cancel()
            await asyncio.gather(self._housekeeping, return_exceptions=True)
        await self._closing.let_go(self._sessions.drain())
        await self._closing.finish()
        await super().close()

    async def _keep_house(self) -> None:
        while True:
            await asyncio.sleep(HOUSEKEEPING_INTERVAL)
            await self._closing.let_go(self._sessions.expire())

    def health(self) -> dict[str, Any]:
        return {
            **super().health(),
            "stateful": self._stateful,
            "sessions": len(self._sessions),
            "tools": list(self._tools),
        }

    # What callers ask.

    async def _answer_seed_session(self, request: Request) -> Answer:
        task = self._task(self._row(request.body))
        if self._sessions.full:
            await self._closing.let_go(self._sessions.expire())
            self._sessions.check_room()
        with boundary(EnvironmentSessionError):
            state = await self.seed_session(task)
        if not self._stateful:
            return Answer(200, b"{}")
        try:
            cookies = {self._cookie: self._sessions.open(state)}
        except EnvironmentSessionError:
            await self._closing.let_go([state])
            raise
        return Answer(200, b"{}", cookies=cookies, headers={CLOSABLE_HEADER: "1"})

    async def _answer_close_session(self, request: Request) -> Answer:
        await self._release(request)
        return Answer(200, b"{}", cookies={self._cookie: ""})

    def _tool_handler(self, method: ToolMethod) -> Any:
        async def handle(request: Request) -> Answer:
            session = self._session(request) if method.wants_state else _NO_SESSION
            try:
                with session as state:
                    return Answer(200, await method.call(self, request.body, state))
            except ToolRejection as rejection:
                raise RefusedRequestError(400, str(rejection)) from rejection
            except (RefusedRequestError, RolloutError):
                raise
            except Exception as error:
                # The contract: the model sees what broke, in as many words as a failure may have.
                message = f"{method.name} failed: {type(error).__name__}: {shorten(str(error))}"
                raise RefusedRequestError(500, message) from error

        return handle

    async def _answer_verify(self, request: Request) -> Answer:
        row = self._row(request.body)
        try:
            response = row.get("response", dict[str, Any])
        except RowError as error:
            raise RefusedRequestError(400, f"the row to verify: {error}") from error
        if response is None:
            raise RefusedRequestError(400, "the row to verify has no `response`")
        task = self._task(row)
        with self._session(request) as state, boundary(VerifierError):
            verdict = await self.verify(task, Response.of(response), state)
            answer = row.with_fields(verdict.as_fields())
        if not self._stateful:
            return Answer(200, answer.raw)
        await self._release(request)
        return Answer(200, answer.raw, cookies={self._cookie: ""})

    async def _answer_aggregate_metrics(self, request: Request) -> Answer:
        result = await asyncio.to_thread(
            answer_aggregate, request.body, self.compute_metrics, self.get_key_metrics
        )
        return json_answer(result)

    async def _release(self, request: Request) -> None:
        state = self._sessions.close(request.cookies.get(self._cookie))
        if state is not None:
            await self._closing.let_go([state])

    def _row(self, body: bytes) -> Row:
        try:
            return Row.parse(body)
        except RowError as error:
            raise RefusedRequestError(400, f"the row is no JSON object: {error}") from error

    def _task(self, row: Row) -> T:
        """The row as its type; of one that names its fields only those are read."""
        raw = row.raw
        if self._task_fields is not None:
            fields = row.fields
            raw = msgspec.json.encode({n: fields[n] for n in self._task_fields if n in fields})
        try:
            return cast("T", self._task_type.model_validate_json(raw))
        except ValidationError as error:
            problems = "; ".join(
                f"{'.'.join(map(str, problem['loc'])) or 'the row'}: {problem['msg']}"
                for problem in error.errors(include_url=False, include_input=False)
            )
            raise TaskError(f"the row is none of {self.name}'s: {problems}") from error

    def _session(self, request: Request) -> AbstractContextManager[Any]:
        """Gives the state for the time of a call."""
        if not self._stateful:
            return _NO_SESSION
        return self._sessions.using(request.cookies.get(self._cookie))


def _plain_names(task: type[TaskRow]) -> tuple[str, ...] | None:
    """The fields that a row's type reads; None where it may read others, or under other names."""
    fields = task.model_fields
    renamed = any(field.alias or field.validation_alias for field in fields.values())
    reads_all = task.model_config.get("extra") != "ignore" or any(
        validator.info.mode != "after"
        for validator in task.__pydantic_decorators__.model_validators.values()
    )
    return None if renamed or reads_all else tuple(fields)
