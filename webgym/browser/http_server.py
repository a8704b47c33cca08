"""The browser server on a socket, and the check of who may send requests.

A handler is cancelled when its client disconnects, and with it everything that it waits for: a
place in the queue, a call to a node. The answer to `/get` is written here and not by aiohttp, so
that a session whose client disconnected meanwhile is noticed.

With a token, every request must send it. Without one, programs on this machine are answered, but no
web pages (`rollgym.servers.access`).
"""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from rollgym.servers.access import ServerAccess, TokenHeader
from rollgym.servers.bounds import handler_runner, read_body, serving
from rollgym.servers.context import incoming_context
from rollgym.servers.exchange import Answer, RefusedRequestError
from webgym.browser.contract.errors import UnauthorizedError
from webgym.browser.contract.http import BrowserRequest, error_answer, rejection_answer
from webgym.browser.master.registration import TOKEN_HEADER
from webgym.browser.routes import GET_PATH, HEALTH_PATH, ServerRoutes
from webgym.browser.settings import TOKEN_VARIABLE

LARGEST_BODY = 2**24
"""Uploads are in the body."""
SHUTDOWN_SECONDS = 1.0
CLIENT_HEADER = "x-client-id"


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
