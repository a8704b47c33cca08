"""The gateway: a base URL and a key of its own for every rollout, on one port.

`/rollouts/ID` is the address of a session. Below it are `/v1/responses`, `/v1/chat/completions`,
`/v1/messages` and `/v1/models`, and `/tools` for the tools of its environment. Every request must
send the key of its session, as a client of OpenAI (`Authorization: Bearer`) or of Anthropic
(`x-api-key`) does; the key of another session does not open it. The key of the model's endpoint
stays with the model server.

*Streams* have the events of the finished answer. So a call that fails is tried again by the
endpoint pool, and its error has a status; the tokens are those of the whole answer. A client that
waits for long gets a comment or a ping from time to time, and from then on an error is an event.
"""

import asyncio
import re
from collections.abc import Mapping
from contextlib import AsyncExitStack

import msgspec
from aiohttp import web

from rollgym.closing import AsyncClosable
from rollgym.records import ModelRequestError, RolloutError
from rollgym.servers.access import is_same_token
from rollgym.servers.bounds import bound_socket, handler_runner, read_body, serving
from rollgym.servers.exchange import Answer, RefusedRequestError, error_answer
from rollgym.servers.gateway.dialects import (
    ANTHROPIC,
    CHAT,
    DIALECTS,
    MESSAGES_PATH,
    Dialect,
    error_event,
    failed,
    refusal,
)
from rollgym.servers.gateway.session import GatewaySession
from rollgym.servers.launch.addresses import ANY_HOST
from rollgym.servers.model import EVENT_STREAM, decoded
from rollgym.servers.responses import JsonObject

LARGEST_REQUEST = 64 * 1024 * 1024
SHUTDOWN_TIMEOUT = 5.0
KEEP_ALIVE = 20.0
"""Seconds after which a client that waits for a stream gets a comment or a ping."""
_PATH = re.compile(r"/rollouts/([\w-]{1,100})(/.*|)")
_TOOLS = "/tools"


class Gateway(AsyncClosable):
    """The sessions of agents. `url` is how agents reach it; without it, the address it binds."""

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        url: str | None = None,
        largest_request: int = LARGEST_REQUEST,
    ) -> None:
        self._address = host, port
        self._url = url
        self._largest_request = largest_request
        self._sessions: dict[str, GatewaySession] = {}
        self._serving = AsyncExitStack()

    async def start(self) -> None:
        """Listen. Raises OSError where the port cannot be bound."""
        bound = bound_socket(*self._address)
        host, port = bound.getsockname()[:2]
        host = ANY_HOST.get(host, host)
        if self._url is None:
            self._url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
        runner = handler_runner(
            self.respond, self._largest_request, shutdown_timeout=SHUTDOWN_TIMEOUT
        )
        await self._serving.enter_async_context(serving(runner, bound))

    async def close(self) -> None:
        for session in list(self._sessions.values()):
            self.end(session)
        await self._serving.aclose()

    @property
    def url(self) -> str:
        return (self._url or "").rstrip("/")

    def session(self, identity: str) -> GatewaySession | None:
        return self._sessions.get(identity)

    @property
    def sessions(self) -> list[GatewaySession]:
        return list(self._sessions.values())

    def add(self, session: GatewaySession) -> str:
        """Open a session; returns its URL."""
        self._sessions[session.id] = session
        return self.url_of(session)

    def url_of(self, session: GatewaySession) -> str:
        return f"{self.url}/rollouts/{session.id}"

    def end(self, session: GatewaySession) -> None:
        """Close a session: further calls are refused, and those that run are cancelled."""
        self._sessions.pop(session.id, None)
        session.end()

    async def respond(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request of an agent."""
        found = _PATH.fullmatch(request.path)
        identity, path = (found[1], found[2]) if found else ("", request.path)
        dialect = DIALECTS.get(path) or (ANTHROPIC if _speaks_anthropic(request) else CHAT)
        try:
            session = self._checked_session(request.headers, identity)
            with session.working():
                if path in DIALECTS:
                    return await _answer_call(request, session, dialect)
                return _response(await _answer_other(request, session, path))
        except RefusedRequestError as error:
            return _response(refusal(dialect, error.status, str(error)))
        except RolloutError as error:
            return _response(failed(dialect, error))

    def _checked_session(self, headers: Mapping[str, str], identity: str) -> GatewaySession:
        """Raises RefusedRequestError."""
        session = self._sessions.get(identity)
        if session is None:
            raise RefusedRequestError(
                404, "there is no such session: it has ended, or the base URL is wrong"
            )
        given = headers.get("x-api-key") or ""
        authorization = headers.get("Authorization", "")
        if authorization[:7].lower() == "bearer ":
            given = authorization[7:]
        if not is_same_token(given, session.key):
            session.wrong_keys += 1
            raise RefusedRequestError(401, "the key is not that of this session")
        return session


async def _answer_call(
    request: web.BaseRequest, session: GatewaySession, dialect: Dialect
) -> web.StreamResponse:
    """Raises RefusedRequestError, RolloutError."""
    if request.method != "POST":
        raise RefusedRequestError(405, f"{request.path} expects POST, not {request.method}")
    raw = await read_body(request)
    body = decoded(raw, ModelRequestError, "the request")
    call = session.start(session.call(dialect, body, len(raw)))
    try:
        if body.get("stream") is not True:
            return _response(Answer(200, msgspec.json.encode(await call)))
        await asyncio.wait({call}, timeout=KEEP_ALIVE)
        if call.done():
            events = b"".join(dialect.events(call.result(), body))
            return _response(Answer(200, events, EVENT_STREAM))
        return await _late_stream(request, call, dialect, body)
    finally:
        call.cancel()


async def _late_stream(
    request: web.BaseRequest, call: "asyncio.Future[JsonObject]", dialect: Dialect, body: JsonObject
) -> web.StreamResponse:
    """A stream that has begun before its answer."""
    headers = {"content-type": EVENT_STREAM, "cache-control": "no-cache"}
    response = web.StreamResponse(headers=headers)
    await response.prepare(request)
    while not call.done():
        await response.write(dialect.keep_alive)
        await asyncio.wait({call}, timeout=KEEP_ALIVE)
    try:
        for event in dialect.events(call.result(), body):
            await response.write(event)
    except RefusedRequestError as error:
        await response.write(error_event(dialect, refusal(dialect, error.status, str(error))))
    except RolloutError as error:
        await response.write(error_event(dialect, failed(dialect, error)))
    return response


async def _answer_other(request: web.BaseRequest, session: GatewaySession, path: str) -> Answer:
    """Models and tools. Raises RefusedRequestError, RolloutError."""
    if path == "/v1/models" or path.startswith("/v1/models/"):
        listed = decoded(
            await session.start(session.episode.list_models()),
            ModelRequestError,
            "the list of models",
        )
        return _models(listed, path.removeprefix("/v1/models"), _speaks_anthropic(request))
    if path == _TOOLS:
        return Answer(200, msgspec.json.encode({"tools": session.tools}))
    if path.startswith(f"{_TOOLS}/"):
        if request.method != "POST":
            return error_answer(405, f"a tool expects POST, not {request.method}")
        body = await read_body(request)
        name = path.removeprefix(f"{_TOOLS}/")
        answer = await session.start(session.ask_tool(name, body))
        return Answer(answer.status, answer.body, answer.content_type)
    if path == f"{MESSAGES_PATH}/count_tokens":
        raise RefusedRequestError(
            404, "the gateway does not count tokens; the answer of a call has their numbers"
        )
    known = ", ".join([*DIALECTS, "/v1/models", _TOOLS])
    raise RefusedRequestError(404, f"the gateway has no {path or '/'}; it has {known}")


def _models(listed: JsonObject, name: str, in_anthropic_form: bool) -> Answer:
    models = [each for each in listed.get("data") or () if isinstance(each, dict)]
    if name:
        models = [each for each in models if each.get("id") == name[1:]]
        if not models:
            raise RefusedRequestError(404, f"there is no model {name[1:]!r}")
    if in_anthropic_form:
        models = [_anthropic_model(str(each.get("id"))) for each in models]
    if name:
        return Answer(200, msgspec.json.encode(models[0]))
    if not in_anthropic_form:
        return Answer(200, msgspec.json.encode({**listed, "data": models}))
    ends = [each["id"] for each in models] or [None]
    paged = {"data": models, "has_more": False, "first_id": ends[0], "last_id": ends[-1]}
    return Answer(200, msgspec.json.encode(paged))


def _anthropic_model(name: str) -> JsonObject:
    created = "1970-01-01T00:00:00Z"
    return {"type": "model", "id": name, "display_name": name, "created_at": created}


def _speaks_anthropic(request: web.BaseRequest) -> bool:
    return "anthropic-version" in request.headers or request.path.endswith(MESSAGES_PATH)


def _response(answer: Answer) -> web.Response:
    headers = {**answer.headers, "content-type": answer.content_type}
    return web.Response(status=answer.status, body=answer.body, headers=headers)
