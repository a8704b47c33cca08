"""A server on a port.

The handler is cancelled when its caller disconnects, and with it everything that it awaits: calls
of other servers, and through them the call of the model. The same holds for an answer in parts,
which must be sent within the server's `request_timeout`. Who may send requests is decided in
`access`, how large and how slow they may be in `bounds`.

A body must be JSON and say so: a page in a browser can send other kinds of bodies to any server.

NeMo Gym's clients put the name of the rollout into the path (`/ng-rollout/<name>/verify`). The name
is used for logs.
"""

import logging
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager

import msgspec
from aiohttp import web
from multidict import CIMultiDict

from rollgym.records.decoding import TOO_DEEP
from rollgym.servers.access import BEARER, ServerAccess, TokenHeader
from rollgym.servers.bounds import bound_socket, handler_runner, read_body, serving
from rollgym.servers.context import incoming_context, seconds_left, working_for
from rollgym.servers.exchange import (
    JSON,
    Answer,
    Parts,
    RefusedRequestError,
    Request,
    error_answer,
    format_set_cookie,
    parse_cookies,
)
from rollgym.servers.limit import Limit
from rollgym.servers.replicas import ReplicaRoute
from rollgym.servers.server import Server

SHUTDOWN_TIMEOUT = 5.0
LOOPBACK = "127.0.0.1"
FEW_BRACKETS = 200
_LOGGER = logging.getLogger("rollgym.servers")
_ROLLOUT_PATH = re.compile(r"/ng-rollout/([^/]+)(?:/training-token-capture)?(?=/)")


@asynccontextmanager
async def listening(
    server: Server,
    host: str = LOOPBACK,
    port: int = 0,
    token: str | None = None,
    route: ReplicaRoute | None = None,
    *,
    sent_as: TokenHeader = BEARER,
) -> AsyncIterator[int]:
    """Serve HTTP on this port (0: any free one) during the block; yields the port.

    With a token, every request must send it; without one, only programs on this machine are
    answered. A replica has a `route` to the others. The server must be started already. Raises
    OSError when the port cannot be bound.
    """
    adapter = _Adapter(server, ServerAccess(host, token, sent_as), route)
    runner = handler_runner(
        adapter.respond, server.config.max_request_bytes, shutdown_timeout=SHUTDOWN_TIMEOUT
    )
    bound = bound_socket(host, port)
    port = bound.getsockname()[1]
    async with serving(runner, bound):
        yield port


class _Adapter:
    """Converts between aiohttp's requests and `Request`."""

    def __init__(self, server: Server, access: ServerAccess, route: ReplicaRoute | None) -> None:
        self._server = server
        self._route = route
        self._access = access

    async def respond(self, request: web.BaseRequest) -> web.StreamResponse:
        cookies = parse_cookies(request.headers.get("cookie", ""))
        context = incoming_context(request.headers)
        path, rollout = request.path, context.rollout
        if tagged := _ROLLOUT_PATH.match(path):
            path, rollout = path[tagged.end() :], rollout or tagged[1]
        with working_for(rollout, context.deadline):
            answer = await self._answer(request, path, cookies)
            if kept := self._server.kept_cookies(cookies):
                answer = msgspec.structs.replace(answer, cookies={**kept, **answer.cookies})
            if self._route is not None:
                answer = self._route.mark(answer)
            if answer.parts is not None:
                return await self._send_parts(request, answer, answer.parts)
        return _response(answer)

    async def _answer(
        self, request: web.BaseRequest, path: str, cookies: Mapping[str, str]
    ) -> Answer:
        try:
            body = await self._checked_body(request)
        except RefusedRequestError as error:
            message = self._server.too_large() if error.status == 413 else str(error)
            return error_answer(error.status, message)
        sent = Request(request.method, path, body, cookies)
        if self._route is not None and (answer := await self._route.pass_on(sent)) is not None:
            return answer
        return await self._server.handle(sent)

    async def _checked_body(self, request: web.BaseRequest) -> bytes:
        """Raises RefusedRequestError."""
        self._access.check(request.headers, request.remote)
        body = await read_body(request, self._server.config.request_timeout)
        if body and request.content_type != JSON:
            raise RefusedRequestError(
                415, f"the body has the type {request.content_type}: send Content-Type: {JSON}"
            )
        _check_nesting(body)
        return body

    async def _send_parts(
        self, request: web.BaseRequest, answer: Answer, parts: Parts
    ) -> web.StreamResponse:
        response = web.StreamResponse(status=answer.status, headers=_headers(answer))
        try:
            with Limit(seconds_left(self._server.config.request_timeout)):
                async with aclosing(parts):
                    await response.prepare(request)
                    async for part in parts:
                        await response.write(part)
        except TimeoutError:
            about = {"server": self._server.name}
            _LOGGER.warning("the stream of %s did not end in time", request.path, extra=about)
            if request.transport is not None:
                request.transport.abort()  # an end without an error would look like the whole
        return response


def _check_nesting(body: bytes) -> None:
    """Raises RefusedRequestError for JSON that no handler could decode.

    Handlers find out themselves what else is wrong with a body. Nearly all have few brackets.
    """
    if body.count(b"[") + body.count(b"{") < FEW_BRACKETS:
        return
    try:
        msgspec.json.decode(body, type=msgspec.Raw)
    except RecursionError as error:
        raise RefusedRequestError(400, f"the body must be JSON: {TOO_DEEP}") from error
    except ValueError:
        return


def _response(answer: Answer) -> web.Response:
    return web.Response(status=answer.status, body=answer.body, headers=_headers(answer))


def _headers(answer: Answer) -> CIMultiDict[str]:
    headers = CIMultiDict(answer.headers)
    headers["content-type"] = answer.content_type
    for name, value in answer.cookies.items():
        headers.add("set-cookie", format_set_cookie(name, value))
    return headers
