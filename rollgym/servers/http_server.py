"""A server on a port.

The handler is cancelled when its caller disconnects, and with it everything that it awaits: calls
of other servers, and through them the call of the model.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from multidict import CIMultiDict

from rollgym.servers.context import incoming_context, working_for
from rollgym.servers.exchange import Answer, Request, error_answer, format_set_cookie, parse_cookies
from rollgym.servers.limit import Limit
from rollgym.servers.server import Server

SHUTDOWN_TIMEOUT = 5.0
LOOPBACK = "127.0.0.1"


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
        return _response(answer)


def _response(answer: Answer) -> web.Response:
    headers = CIMultiDict(answer.headers)
    headers["content-type"] = answer.content_type
    for name, value in answer.cookies.items():
        headers.add("set-cookie", format_set_cookie(name, value))
    return web.Response(status=answer.status, body=answer.body, headers=headers)
