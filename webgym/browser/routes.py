"""The browser server over HTTP: all of its routes, on a socket, and who may send requests.

A request about a session is forwarded unchanged to its node; the others are answered here. Errors
are raised, and `answered` writes them, in one place for all routes.

A handler is cancelled when its client disconnects, and with it everything that it waits for: a
place in the queue, a call to a node. The answer to `/get` is written here and not by aiohttp, so
that a session whose client disconnected meanwhile is noticed.

With a token, every request must send it. Without one, programs on this machine are answered, but no
web pages (`rollgym.servers.access`).
"""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import msgspec
from aiohttp import web

from rollgym.records.decoding import JsonDecoder, decode_json
from rollgym.servers.access import ServerAccess, TokenHeader, is_loopback
from rollgym.servers.bounds import handler_runner, read_body, serving
from rollgym.servers.context import incoming_context
from rollgym.servers.exchange import Answer, RefusedRequestError, json_answer
from webgym.browser.contract.answers import Lease
from webgym.browser.contract.errors import WIRE_ERRORS, BadRequestError, UnauthorizedError
from webgym.browser.contract.http import (
    AVAILABLE_HEADER,
    VIEWPORT_ANSWER,
    BrowserRequest,
    GetQuery,
    NoQuery,
    SessionReference,
    error_answer,
    internal_error_answer,
    read_profile,
    read_query,
    read_query_session,
    read_session_reference,
    rejection_answer,
    success,
)
from webgym.browser.master.master import Master
from webgym.browser.master.registration import REGISTER_PATH, TOKEN_HEADER, Registration
from webgym.browser.settings import TOKEN_VARIABLE, BrowserSettings, BrowserSettingsError, check_url

LARGEST_BODY = 2**24
"""Uploads are in the body."""
SHUTDOWN_SECONDS = 1.0
CLIENT_HEADER = "x-client-id"
GET_PATH = "/get"
HEALTH_PATH = "/healthz"
INFO_PATH = "/info"
ROUTES: dict[str, str] = {
    GET_PATH: "POST",
    "/reset": "POST",
    "/execute": "POST",
    "/step": "POST",
    "/screenshot": "GET",
    "/probe": "GET",
    "/metadata": "GET",
    "/storage_state": "GET",
    "/recording": "GET",
    INFO_PATH: "GET",
    REGISTER_PATH: "POST",
    HEALTH_PATH: "GET",
}
_WITHOUT_SESSION = {"/probe": success(), "/metadata": VIEWPORT_ANSWER}
_REGISTRATION = JsonDecoder(Registration)
_LOGGER = logging.getLogger(__name__)


class GrantedLease(Lease, frozen=True):
    """The answer of `POST /get`: a lease and its lifetime."""

    lifetime_mins: float
    status: str = "success"


class ServerRoutes:
    """The routes of one server."""

    def __init__(self, settings: BrowserSettings, master: Master, token: str | None) -> None:
        self._settings = settings
        self._master = master
        self._token = token

    async def answered(self, request: BrowserRequest) -> Answer:
        """The answer to a request, also if it fails. Raises only CancelledError."""
        try:
            answer = await self._answer(request)
        except WIRE_ERRORS as error:
            answer = error_answer(error)
        except RefusedRequestError as error:
            answer = rejection_answer(error)
        except Exception as error:
            _LOGGER.exception("%s failed", request.path)
            answer = internal_error_answer(error)
        if request.path in (GET_PATH, "/reset") and self._settings.role == "node":
            headers = {**answer.headers, AVAILABLE_HEADER: str(max(0, self._master.free_slots))}
            answer = msgspec.structs.replace(answer, headers=headers)
        return answer

    def undelivered(self, answer: Answer) -> None:
        """The client disconnected before it got this answer."""
        if answer.ok:
            self._master.drop(decode_json(answer.body, Lease))

    async def _answer(self, request: BrowserRequest) -> Answer:
        _check_route(request)
        match request.path:
            case "/get":
                return await self._get(request)
            case "/info":
                read_query(request.query, NoQuery)
                return json_answer(self._master.info())
            case "/register":
                return self._register(request)
            case "/healthz":
                return json_answer({"status": "ok"})
            case "/execute" | "/step":
                reference = read_session_reference(request)
            case _:
                reference = read_query_session(request.query)
        if reference.instance_id is None and request.path in _WITHOUT_SESSION:
            read_query(request.query, SessionReference)
            return _WITHOUT_SESSION[request.path]
        reference.session  # noqa: B018 - raises if it is missing
        return await self._master.ask(request, reference)

    async def _get(self, request: BrowserRequest) -> Answer:
        wanted = read_query(request.query, GetQuery)
        now = asyncio.get_running_loop().time()
        minutes = self._settings.lifetime_of(wanted.lifetime_mins)
        wait = wanted.wait_seconds
        wait_until = now + (self._settings.wait_seconds if wait is None else wait)
        deadline = wait_until + self._settings.open_seconds
        if request.deadline is not None:
            deadline = min(deadline, request.deadline)
        lease = await self._master.get(
            request.client,
            minutes * 60,
            min(wait_until, deadline),
            deadline,
            wanted.instance_id,
            read_profile(request.body),
        )
        return json_answer(GrantedLease(lease.instance_id, lease.node, minutes))

    def _register(self, request: BrowserRequest) -> Answer:
        try:
            registration = _REGISTRATION.decode(request.body)
            check_url("url", registration.url)
        except (msgspec.DecodeError, BrowserSettingsError) as error:
            raise BadRequestError(f"the registration is invalid: {error}") from error
        if self._token is None and not is_loopback(urlsplit(registration.url).hostname or ""):
            raise BadRequestError(
                f"without a token only nodes on this machine can register, not {registration.url}: "
                f"set {TOKEN_VARIABLE} for the master and its nodes"
            )
        return json_answer(self._master.register(registration, self._token))


def _check_route(request: BrowserRequest) -> None:
    """Raises RefusedRequestError."""
    method = ROUTES.get(request.path)
    if method is None:
        known = ", ".join(f"{verb} {path}" for path, verb in ROUTES.items())
        raise RefusedRequestError(404, f"unknown path {request.path[:100]}: the routes are {known}")
    if request.method != method:
        raise RefusedRequestError(405, f"{request.path} takes {method}, not {request.method[:20]}")


def browser_access(host: str, token: str | None) -> ServerAccess:
    """The access rule of a browser server."""
    return ServerAccess(host, token, TokenHeader(TOKEN_VARIABLE, TOKEN_HEADER))


@asynccontextmanager
async def listening(
    routes: ServerRoutes, access: ServerAccess, bound: socket.socket
) -> AsyncIterator[None]:
    """Answer on this socket until the end of the block."""
    adapter = _RequestAdapter(routes, access)
    runner = handler_runner(adapter.respond, LARGEST_BODY, shutdown_timeout=SHUTDOWN_SECONDS)
    async with serving(runner, bound):
        yield


class _RequestAdapter:
    """Translates between the requests of aiohttp and ours."""

    def __init__(self, routes: ServerRoutes, access: ServerAccess) -> None:
        self._routes = routes
        self._access = access

    async def respond(self, request: web.BaseRequest) -> web.StreamResponse:
        answer = await self._answer(request)
        response = web.Response(
            status=answer.status,
            body=answer.body,
            headers={"content-type": answer.content_type, **answer.headers},
        )
        if request.path == GET_PATH and answer.ok:
            await self._deliver(request, response, answer)
        return response

    async def _answer(self, request: web.BaseRequest) -> Answer:
        try:
            if request.path != HEALTH_PATH:
                self._access.check(request.headers, request.remote)
        except RefusedRequestError as error:
            return error_answer(UnauthorizedError(str(error)), error.status)
        try:
            body = await read_body(request)
        except RefusedRequestError as error:
            return rejection_answer(error)
        return await self._routes.answered(
            BrowserRequest(
                request.method,
                request.path,
                request.rel_url.raw_query_string,
                body,
                request.headers.get(CLIENT_HEADER) or request.remote or "",
                incoming_context(request.headers).deadline,
            )
        )

    async def _deliver(
        self, request: web.BaseRequest, response: web.Response, answer: Answer
    ) -> None:
        """Write the answer, and end the session if the client has disconnected.

        A client that disconnects after the write counts as having read it.
        """
        delivered = False
        try:
            # If the client has disconnected, the next turn of the loop cancels this handler.
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            await response.prepare(request)
            await response.write_eof()
            delivered = True
        except ConnectionError:
            delivered = False
        finally:
            if not delivered:
                self._routes.undelivered(answer)
