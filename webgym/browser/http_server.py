"""The browser server on a socket, and the check of who may send requests.

A handler is cancelled when its client disconnects, and with it everything that it waits for: a
place in the queue, a call to a node. The answer to `/get` is written here and not by aiohttp, so
that a session whose client disconnected meanwhile is noticed.

*Access.* With a token, every request must send it. Without one, programs on this machine are
answered, but no web pages: a page could send requests through a browser on this machine, or let its
own host name resolve to this machine. Browsers name the page in `Origin` or `Sec-Fetch-Site`, and
such a host name is in `Host`.
"""

import asyncio
import hmac
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from aiohttp import web

from rollgym.servers.config import is_loopback
from rollgym.servers.context import incoming_context
from rollgym.servers.exchange import Answer, RefusedRequestError
from rollgym.servers.limit import Limit
from webgym.browser.contract.errors import UnauthorizedError
from webgym.browser.contract.http import BrowserRequest, error_answer, rejection_answer
from webgym.browser.master.registration import TOKEN_HEADER
from webgym.browser.routes import GET_PATH, HEALTH_PATH, ServerRoutes
from webgym.browser.settings import TOKEN_VARIABLE

LARGEST_BODY = 2**20
ARRIVAL_SECONDS = 30.0
KEEPALIVE_SECONDS = 75.0
"""Longer than our clients keep connections, so that no connection closes while they use it."""
SHUTDOWN_SECONDS = 1.0
BACKLOG = 4096
CLIENT_HEADER = "x-client-id"
_OWN_SITE = frozenset(("none", "same-origin"))
_FORBIDDEN = 403


class ServerAccess:
    """The access rule of one server. `token` None means: programs on this machine only."""

    def __init__(self, token: str | None, host: str) -> None:
        self._token = None if token is None else token.encode()
        self._names = {"localhost", host.lower(), socket.gethostname().lower()}

    def rejection(self, headers: Mapping[str, str], peer: str | None) -> Answer | None:
        """The answer that rejects this request; None if it is allowed."""
        if self._token is not None:
            return self._check_token(headers.get(TOKEN_HEADER, ""))
        if peer is None or not is_loopback(peer.partition("%")[0]):
            return _rejected(
                f"without a token the server only answers programs on this machine: set "
                f"{TOKEN_VARIABLE} for the server and its clients"
            )
        if "Origin" in headers or headers.get("Sec-Fetch-Site", "none") not in _OWN_SITE:
            return _rejected("the server does not answer web pages")
        if not self._is_own_name(headers.get("Host", "")):
            return _rejected(
                "the Host header names another machine: use localhost or an address, or set a token"
            )
        return None

    def _check_token(self, given: str) -> Answer | None:
        assert self._token is not None  # noqa: S101 - for the type checker
        if hmac.compare_digest(given.encode("utf-8", "surrogateescape"), self._token):
            return None
        wrong = "is wrong" if given else "is missing"
        return error_answer(
            UnauthorizedError(f"the token {wrong}: send {TOKEN_VARIABLE} as {TOKEN_HEADER}")
        )

    def _is_own_name(self, host: str) -> bool:
        """Whether the host is a name of this machine, or any address."""
        try:
            name = urlsplit(f"//{host}").hostname or ""
            return name in self._names or ip_address(name) is not None
        except ValueError:
            return False


def _rejected(message: str) -> Answer:
    return error_answer(UnauthorizedError(message), _FORBIDDEN)


@asynccontextmanager
async def listening(
    routes: ServerRoutes, access: ServerAccess, bound: socket.socket
) -> AsyncIterator[None]:
    """Answer on this socket until the end of the block. The caller closes the socket."""
    adapter = _RequestAdapter(routes, access)
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
        if request.path != HEALTH_PATH:
            rejection = self._access.rejection(request.headers, request.remote)
            if rejection is not None:
                return rejection
        try:
            with Limit(ARRIVAL_SECONDS):
                body = await request.read()
        except web.HTTPRequestEntityTooLarge:
            return rejection_answer(
                RefusedRequestError(413, f"the body is larger than {LARGEST_BODY} bytes")
            )
        except TimeoutError:
            return rejection_answer(RefusedRequestError(408, "the body did not arrive in time"))
        except web.RequestPayloadError as error:
            return rejection_answer(RefusedRequestError(400, f"the body cannot be read: {error}"))
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


def _make_request(
    message: Any, payload: Any, protocol: Any, writer: Any, task: Any
) -> web.BaseRequest:
    return web.BaseRequest(
        message, payload, protocol, writer, task, task.get_loop(), client_max_size=LARGEST_BODY
    )
