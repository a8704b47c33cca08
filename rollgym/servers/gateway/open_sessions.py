"""The gateway alone: sessions are opened, read and ended over HTTP, by programs that run agents.

`POST /sessions` opens one and answers its URLs and its key; `GET /sessions/ID` answers what the
agent has done so far, and `DELETE /sessions/ID` the same, and ends it. These routes follow the rule
of all our servers (`servers/access.py`), so beyond loopback they need a token, which no agent gets.

*Bounds.* The number of sessions is bounded, and each has a limit of calls and of bytes. A session
that was unused for its lifetime ends, and what it kept is lost.
"""

import asyncio
import logging
from typing import Annotated, Any

import msgspec
from aiohttp import web

from rollgym.records.decoding import JsonDecoder
from rollgym.records.row import CALLS_FIELD
from rollgym.records.tokens import ROW_FIELD
from rollgym.records.version import TURNS_FIELD
from rollgym.servers.access import NAMED_BY_OPTION, ServerAccess
from rollgym.servers.bounds import read_body
from rollgym.servers.client import ServerClient
from rollgym.servers.context import working_for
from rollgym.servers.episode import Episode
from rollgym.servers.exchange import Answer, RefusedRequestError, error_answer, json_answer
from rollgym.servers.gateway.gateway import Gateway
from rollgym.servers.gateway.session import GatewaySession, SessionLimits

ROUTE = "/sessions"
LIFETIME = 3600.0
LONGEST_LIFETIME = 7 * 86_400.0
MOST_SESSIONS = 1000
MOST_CALLS = 1000
MODEL_TIMEOUT = 1800.0
KEPT_BYTES = 64 * 1024 * 1024
EXPIRY_INTERVAL = 5.0
_LOGGER = logging.getLogger("rollgym.servers")


class SessionRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A new session: the name of its rollout, parameters that replace those of the agent, seconds
    until it ends unused, and the most answered calls."""

    rollout: Annotated[str, msgspec.Meta(max_length=200)] = ""
    parameters: dict[str, Any] = {}
    lifetime: Annotated[float, msgspec.Meta(gt=0, le=LONGEST_LIFETIME)] = LIFETIME
    max_calls: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = MOST_CALLS


_REQUEST = JsonDecoder(SessionRequest)


class OpenGateway(Gateway):
    """A gateway in front of one model server, with sessions for programs on this machine.

    With a token, it opens sessions for programs that send it, wherever they are.
    """

    def __init__(
        self,
        model: ServerClient,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        url: str | None = None,
        token: str | None = None,
        most_sessions: int = MOST_SESSIONS,
    ) -> None:
        super().__init__(host, port, url=url)
        self._model = model
        self._access = ServerAccess(host, token, NAMED_BY_OPTION)
        self._most = most_sessions
        self._lifetimes: dict[str, float] = {}
        self._expiring: asyncio.Task[None] | None = None

    async def start(self) -> None:
        await super().start()
        self._expiring = asyncio.create_task(self._expire(), name="gateway sessions")

    async def close(self) -> None:
        if self._expiring is not None:
            self._expiring.cancel()
            await asyncio.gather(self._expiring, return_exceptions=True)
        await super().close()

    def end(self, session: GatewaySession) -> None:
        self._lifetimes.pop(session.id, None)
        super().end(session)

    async def respond(self, request: web.BaseRequest) -> web.StreamResponse:
        path = request.path
        if path != ROUTE and not path.startswith(f"{ROUTE}/"):
            return await super().respond(request)
        try:
            self._access.check(request.headers, request.remote)
            answer = await self._answer(request, path.removeprefix(ROUTE).removeprefix("/"))
        except RefusedRequestError as error:
            answer = error_answer(error.status, str(error))
        headers = {"content-type": answer.content_type}
        return web.Response(status=answer.status, body=answer.body, headers=headers)

    async def _answer(self, request: web.BaseRequest, identity: str) -> Answer:
        """Raises RefusedRequestError."""
        if not identity and request.method == "POST":
            return json_answer(self._open(await read_body(request)), 201)
        if not identity and request.method == "GET":
            opened = [{"id": each.id, "answered": each.answered} for each in self.sessions]
            return json_answer({"sessions": opened})
        session = self.session(identity)
        if request.method not in ("GET", "DELETE"):
            raise RefusedRequestError(405, f"{ROUTE} expects POST, GET or DELETE")
        if session is None:
            raise RefusedRequestError(404, f"there is no session {identity!r}: it may have ended")
        if request.method == "DELETE":
            self.end(session)
        return json_answer(kept_by(session))

    def _open(self, body: bytes) -> dict[str, Any]:
        try:
            asked = _REQUEST.decode(body or b"{}")
        except msgspec.DecodeError as error:
            raise RefusedRequestError(400, f"the session cannot be opened: {error}") from error
        if len(self.sessions) >= self._most:
            message = f"{self._most} sessions are open, the most that there may be: end one"
            raise RefusedRequestError(429, message)
        nothing = ServerClient("the environment", [])
        episode = Episode(
            self._model.one(),
            nothing,
            tool_timeout=MODEL_TIMEOUT,
            model_timeout=MODEL_TIMEOUT,
            takes_tokens=True,
        )
        limits = SessionLimits(calls=asked.max_calls, kept_bytes=KEPT_BYTES)
        with working_for(asked.rollout):
            session = GatewaySession(episode, forced=asked.parameters, limits=limits)
        url = self.add(session)
        self._lifetimes[session.id] = asked.lifetime
        return {
            "id": session.id,
            "api_key": session.key,
            "openai_base_url": f"{url}/v1",
            "anthropic_base_url": url,
            "lifetime": asked.lifetime,
        }

    async def _expire(self) -> None:
        while True:
            await asyncio.sleep(EXPIRY_INTERVAL)
            now = asyncio.get_running_loop().time()
            for session in self.sessions:
                unused = 0.0 if session.is_running else now - session.last_used
                if unused > self._lifetimes.get(session.id, LIFETIME):
                    _LOGGER.warning(
                        "the session %s of the gateway ended, unused for %.0f s; its %d calls are "
                        "lost",
                        session.id,
                        unused,
                        session.answered,
                    )
                    self.end(session)


def kept_by(session: GatewaySession) -> dict[str, Any]:
    """What a session keeps, under the names that it has in a row."""
    episode = session.episode
    response = session.response() if session.answered else None
    episode.output = session.output()
    kept: dict[str, Any] = {"response": response, CALLS_FIELD: session.record()}
    if tokens := episode.token_turns:
        kept[ROW_FIELD] = tokens
    if turns := episode.turns:
        kept[TURNS_FIELD] = turns
    return kept
