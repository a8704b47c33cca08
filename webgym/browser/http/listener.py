"""The server on a socket.

A handler is cancelled when its client goes away, and with it whatever it awaits: a place in the
line, a call to a node. The answer to `/get` is written here rather than by aiohttp, so that a
session whose client left in the meantime is noticed.
"""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from rollgym.servers.context import incoming_context
from rollgym.servers.exchange import Answer, RefusedRequestError
from rollgym.servers.limit import Limit
from webgym.browser.exchange.answer import refusal_answer
from webgym.browser.exchange.request import Request
from webgym.browser.http.access import Access
from webgym.browser.http.front import GET_PATH, HEALTH_PATH, Front

LARGEST_BODY = 2**20
ARRIVAL_SECONDS = 30.0
KEEPALIVE_SECONDS = 75.0
"""Longer than any client of ours keeps a connection, so that none is closed under its feet."""
SHUTDOWN_SECONDS = 1.0
BACKLOG = 4096
CLIENT_HEADER = "x-client-id"


@asynccontextmanager
async def listening(front: Front, access: Access, bound: socket.socket) -> AsyncIterator[None]:
    """Answer on this socket until the end of the block. The socket stays the caller's."""
    adapter = _Adapter(front, access)
    runner = web.ServerRunner(
        web.Server(
            adapter.respond,
            request_factory=_make_request,
            handler_cancellation=True,
            access_log=None,
            keepalive_timeout=KEEPALIVE_SECONDS,
        ),
        shutdown_timeout=SHUTDOWN_SECONDS,
    )
    await runner.setup()
    try:
        await web.SockSite(runner, bound, backlog=BACKLOG).start()
        yield
    finally:
        await runner.cleanup()


class _Adapter:
    """Between aiohttp's requests and ours."""

    def __init__(self, front: Front, access: Access) -> None:
        self._front = front
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
        if request.path != HEALTH_PATH:
            refusal = self._access.refusal(request.headers, request.remote)
            if refusal is not None:
                return refusal
        try:
            with Limit(ARRIVAL_SECONDS):
                body = await request.read()
        except web.HTTPRequestEntityTooLarge:
            return refusal_answer(
                RefusedRequestError(413, f"the body is larger than {LARGEST_BODY} bytes")
            )
        except TimeoutError:
            return refusal_answer(RefusedRequestError(408, "the body did not arrive in time"))
        except web.RequestPayloadError as error:
            return refusal_answer(RefusedRequestError(400, f"the body cannot be read: {error}"))
        return await self._front.answered(
            Request(
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
        """Write the answer, and take the session back where nobody is there to read it.

        Who leaves after it was written has read it.
        """
        delivered = False
        try:
            # A client that has left already is noticed in the next turn of the loop, and cancels.
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            await response.prepare(request)
            await response.write_eof()
            delivered = True
        except ConnectionError:
            delivered = False
        finally:
            if not delivered:
                self._front.undelivered(answer)


def _make_request(
    message: Any, payload: Any, protocol: Any, writer: Any, task: Any
) -> web.BaseRequest:
    return web.BaseRequest(
        message, payload, protocol, writer, task, task.get_loop(), client_max_size=LARGEST_BODY
    )
