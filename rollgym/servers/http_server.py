"""A server on a port.

The handler is cancelled when its caller disconnects, and with it everything that it awaits: calls
of other servers, and through them the call of the model. The same holds for an answer in parts,
which must be sent within the server's `request_timeout`.
"""

import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

from aiohttp import web
from multidict import CIMultiDict

from rollgym.servers.context import incoming_context, seconds_left, working_for
from rollgym.servers.exchange import Answer, Request, error_answer, format_set_cookie, parse_cookies
from rollgym.servers.limit import Limit
from rollgym.servers.server import Server

SHUTDOWN_TIMEOUT = 5.0
LOOPBACK = "127.0.0.1"
_LOGGER = logging.getLogger("rollgym.servers")


@asynccontextmanager
async def listening(server: Server, host: str = LOOPBACK, port: int = 0) -> AsyncIterator[int]:
    """Serve HTTP on this port (0: any free one) during the block; yields the port.

    The server must be started already. Raises OSError when the port cannot be bound.
    """
    adapter = _Adapter(server)
    runner = web.ServerRunner(
        web.Server(
            adapter.respond,
            request_factory=adapter.make_request,
            handler_cancellation=True,
            access_log=None,
        ),
        shutdown_timeout=SHUTDOWN_TIMEOUT,
    )
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port, backlog=4096)
        await site.start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


class _Adapter:
    """Converts between aiohttp's requests and `Request`."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def make_request(
        self, message: Any, payload: Any, protocol: Any, writer: Any, task: Any
    ) -> web.BaseRequest:
        limit = self._server.config.max_request_bytes
        return web.BaseRequest(
            message, payload, protocol, writer, task, task.get_loop(), client_max_size=limit
        )

    async def respond(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            with Limit(self._server.config.request_timeout):
                body = await request.read()
        except web.HTTPRequestEntityTooLarge:
            return _response(error_answer(413, self._server.too_large()))
        except TimeoutError:
            return _response(error_answer(408, "the request did not arrive in time"))
        except web.RequestPayloadError as error:
            return _response(error_answer(400, f"the request cannot be read: {error}"))
        cookies = parse_cookies(request.headers.get("cookie", ""))
        context = incoming_context(request.headers)
        with working_for(context.rollout, context.deadline):
            answer = await self._server.handle(Request(request.method, request.path, body, cookies))
            if answer.parts is not None:
                return await self._send_parts(request, answer, answer.parts)
        return _response(answer)

    async def _send_parts(
        self, request: web.BaseRequest, answer: Answer, parts: AsyncGenerator[bytes, None]
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


def _response(answer: Answer) -> web.Response:
    return web.Response(status=answer.status, body=answer.body, headers=_headers(answer))


def _headers(answer: Answer) -> CIMultiDict[str]:
    headers = CIMultiDict(answer.headers)
    headers["content-type"] = answer.content_type
    for name, value in answer.cookies.items():
        headers.add("set-cookie", format_set_cookie(name, value))
    return headers
