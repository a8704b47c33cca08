"""A server: routes to typed async methods, and one method, `handle`, that answers requests.

Both transports call `handle`, so bounds, timeouts, errors and logs are the same for a caller in
this process and one on the network.
"""

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum
from typing import Annotated, Any, ClassVar, NamedTuple, NoReturn, Protocol, get_type_hints

from pydantic import BaseModel, ConfigDict, Field

from rollgym.records import DeadlineError, RolloutError
from rollgym.records.decoding import decode_json
from rollgym.servers.client import ServerClient
from rollgym.servers.context import current_rollout
from rollgym.servers.exchange import (
    Answer,
    RefusedRequestError,
    Request,
    error_answer,
    failure_answer,
    json_answer,
)
from rollgym.servers.limit import Limit
from rollgym.store.settings import Setting

Handler = Callable[[Request], Awaitable[Answer]]
_LOGGER = logging.getLogger("rollgym.servers")


class ServerKind(StrEnum):
    """The three kinds of servers, by the names of their folders."""

    RESOURCES = "resources_servers"
    AGENT = "responses_api_agents"
    MODEL = "responses_api_models"


class ServerRef(BaseModel):
    """A reference to another server in a configuration."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    type: ServerKind
    name: str


class NoEffect(NamedTuple):
    """Marks a setting that files of the field contain and that changes nothing here.

    Write it beside `Setting.NOTE`, inside `Annotated`. Where a file gives such a setting a value, a
    warning names the file, the line and the key, and says why.
    """

    reason: str


class ServerConfig(BaseModel):
    """The settings of every server. A plug-in adds its own in a subclass.

    Every setting that can change results is part of a run's identity; the others carry a mark (see
    `rollgym.store.settings`). The last group describes the server to people and is not used.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    entrypoint: str = "app.py"
    host: Annotated[str | None, Setting.ADDRESS] = None
    port: Annotated[int | None, Setting.ADDRESS] = None
    processes: Annotated[int, Setting.TIMING] = Field(default=1, ge=1)
    isolated: Annotated[bool, Setting.TIMING] = False

    request_timeout: Annotated[float, Setting.TIMING] = Field(default=3600.0, gt=0)
    max_request_bytes: Annotated[int, Setting.TIMING] = Field(default=64 * 1024 * 1024, gt=0)

    domain: Annotated[str | None, Setting.NOTE] = None
    description: Annotated[str | None, Setting.NOTE] = None
    value: Annotated[str | None, Setting.NOTE] = None
    verified: Annotated[bool | None, Setting.NOTE] = None
    verified_url: Annotated[str | None, Setting.NOTE] = None
    datasets: Annotated[list[dict[str, Any]], Setting.NOTE] = []
    num_workers: Annotated[
        Any,
        Setting.NOTE,
        NoEffect("one process answers all requests; `processes: 2` starts two of them"),
    ] = None


class ServerDirectory(Protocol):
    """Gives a server clients of the other servers of its run."""

    def client(self, name: str) -> ServerClient:
        """Raises KeyError for an unknown name."""


class NoServers:
    """The empty directory."""

    def client(self, name: str) -> ServerClient:
        raise KeyError(name)


class Server:
    """Base of all servers. `name` is that of the instance in the configuration."""

    kind: ClassVar[str]
    once: ClassVar[bool] = False
    """Whether one server of this class serves a whole run, also where many processes collect."""
    config: ServerConfig

    def __init__(
        self, name: str, config: ServerConfig, directory: ServerDirectory | None = None
    ) -> None:
        self.name = name
        self.config = config
        self.directory: ServerDirectory = NoServers() if directory is None else directory
        self._timeout = config.request_timeout
        self._largest_request = config.max_request_bytes
        self._routes: dict[str, tuple[str, Handler]] = {}
        self.route("GET", "/healthz", self._answer_health)
        self.route("GET", "/", self._answer_alive)

    @classmethod
    def config_type(cls) -> type[ServerConfig]:
        """The class of its `config` annotation."""
        hint = get_type_hints(cls).get("config", ServerConfig)
        return hint if isinstance(hint, type) and issubclass(hint, ServerConfig) else ServerConfig

    def route(self, method: str, path: str, handler: Handler) -> None:
        self._routes[path] = (method, handler)

    async def start(self) -> None:
        """Called once before the first request, in the event loop."""

    async def close(self) -> None:
        """Called once after the last request."""

    def health(self) -> dict[str, Any]:
        """Further fields of `GET /healthz`; a subclass adds to them."""
        return {}

    def kept_cookies(self, cookies: Mapping[str, str]) -> Mapping[str, str]:
        """The cookies of a request that every HTTP answer repeats, unless it changes them."""
        return {}

    async def handle(self, request: Request, seconds: float = math.inf) -> Answer:
        """Answer a request. Raises only cancellation.

        `seconds` is when the caller cancels; before `request_timeout`, no limit is set here.
        """
        began, limit = time.perf_counter(), None
        try:
            route = self._routes.get(request.path)
            if (
                route is None
                or route[0] != request.method
                or len(request.body) > self._largest_request
            ):
                self._refuse(request, route)
            handler = route[1]
            if seconds <= self._timeout:
                answer = await handler(request)
            else:
                with Limit(self._timeout) as limit:
                    answer = await handler(request)
        except RefusedRequestError as error:
            answer = error_answer(error.status, str(error))
        except RolloutError as error:
            if error.unexpected is not None:
                self.log_bug(request, error.unexpected)
            answer = failure_answer(error)
        except TimeoutError as error:
            ours = limit is not None and limit.expired
            answer = failure_answer(self._timed_out(request) if ours else error)
        except (Exception, asyncio.CancelledError) as error:
            if isinstance(error, asyncio.CancelledError) and is_cancelled():
                raise
            self.log_bug(request, error)
            answer = failure_answer(error)
        if answer.status >= 500 or _LOGGER.isEnabledFor(logging.DEBUG):
            self._log(request, answer, time.perf_counter() - began)
        return answer

    def _refuse(self, request: Request, route: tuple[str, Handler] | None) -> NoReturn:
        """Refuse a request that is too large, or that no route answers."""
        if len(request.body) > self._largest_request:
            raise RefusedRequestError(413, self.too_large())
        if route is None:
            known = ", ".join(f"{verb} {path}" for path, (verb, _) in self._routes.items())
            raise RefusedRequestError(
                404, f"{self.name} has no {request.path}; its routes are {known}"
            )
        raise RefusedRequestError(
            405, f"{request.path} of {self.name} expects {route[0]}, not {request.method}"
        )

    def too_large(self) -> str:
        return (
            f"the request is larger than {self.config.max_request_bytes} bytes, the limit of "
            f"{self.name}; raise max_request_bytes in its configuration"
        )

    def _timed_out(self, request: Request) -> RolloutError:
        return DeadlineError(
            f"{self.name} did not answer {request.path} within {self.config.request_timeout:g} s, "
            "its request_timeout"
        )

    async def _answer_health(self, _: Request) -> Answer:
        return json_answer({"status": "ok", "name": self.name, "type": self.kind, **self.health()})

    async def _answer_alive(self, _: Request) -> Answer:
        """How clients of NeMo Gym check that a server runs."""
        return json_answer({"status": "ok"})

    def _about(self, request: Request) -> dict[str, Any]:
        return {"server": self.name, "path": request.path, "rollout": current_rollout()}

    def log_bug(self, request: Request, error: BaseException) -> None:
        _LOGGER.error("%s failed", request.path, exc_info=error, extra=self._about(request))

    def _log(self, request: Request, answer: Answer, seconds: float) -> None:
        level = logging.WARNING if answer.status >= 500 else logging.DEBUG
        detail = answer.body[:500].decode("utf-8", "replace") if answer.status >= 400 else ""
        about = {**self._about(request), "status": answer.status, "seconds": round(seconds, 6)}
        _LOGGER.log(level, "%s %s %s", request.path, answer.status, detail, extra=about)


def is_cancelled() -> bool:
    """Whether this task itself is cancelled, rather than something that it awaits."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def decode_object(body: bytes) -> dict[str, Any]:
    """Decode a body that must be a JSON object. Raises RefusedRequestError."""
    try:
        return decode_json(body, dict[str, Any])
    except ValueError as error:
        raise RefusedRequestError(400, f"the body must be a JSON object: {error}") from error
