"""The bounds of every HTTP server: of connections, headers and bodies.

*Bodies.* A compressed body is refused by its header, because a few kilobytes may expand to
gigabytes. So is a declared length over the limit; a body without a declared length is refused where
it passes the limit. A body must arrive within `BODY_SECONDS`.

*Connections.* The headers of the first request must arrive within `HEADER_SECONDS`. Then a
connection may be idle for `IDLE_SECONDS`, the headers of its next request included.

*File descriptors.* Where none is left, new connections wait in the kernel's queue until one is
free. asyncio tries again every second. It would log a traceback for every waiting connection; we
log a line a second.
"""

import asyncio
import logging
import math
import resource
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from aiohttp.http import HttpProcessingError
from aiohttp.typedefs import Handler

from rollgym.servers.exchange import RefusedRequestError
from rollgym.servers.limit import Limit

HEADER_SECONDS = 30.0
BODY_SECONDS = 120.0
IDLE_SECONDS = 75.0
"""Longer than our clients keep connections, so that no connection closes while they use it."""
LINGER_SECONDS = 2.0
"""How long the rest of a refused body is read, so that its sender can read the answer."""
BACKLOG = 4096
ACCEPTS = 64
"""Connections accepted at a time. If there are no descriptors, asyncio complains for each."""

_ACCEPT_FAILED = "socket.accept() out of system resource"
_WORDS = {
    408: web.HTTPRequestTimeout,
    415: web.HTTPUnsupportedMediaType,
}

RequestHandler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


async def read_body(request: web.BaseRequest, within: float = math.inf) -> bytes:
    """The body, within the bounds and these seconds. Raises RefusedRequestError."""
    check_body(request)
    if not request.can_read_body:
        return b""
    try:
        with Limit(min(within, BODY_SECONDS)):
            return await request.read()
    except web.HTTPRequestEntityTooLarge as error:
        raise _too_large(request) from error
    except TimeoutError as error:
        raise RefusedRequestError(408, "the body did not arrive in time") from error
    except web.RequestPayloadError as error:
        raise RefusedRequestError(400, f"the body cannot be read: {error}") from error


def check_body(request: web.BaseRequest) -> None:
    """Raises RefusedRequestError for a body that the headers show not to be acceptable."""
    encoding = request.headers.get("Content-Encoding", "")
    if encoding.lower() not in ("", "identity"):
        raise RefusedRequestError(
            415, f"the body has the encoding {encoding[:50]!r}: send it uncompressed"
        )
    if (request.content_length or 0) > request.client_max_size:
        raise _too_large(request)


def _too_large(request: web.BaseRequest) -> RefusedRequestError:
    return RefusedRequestError(413, f"the body is larger than {request.client_max_size} bytes")


def handler_runner(
    handler: RequestHandler, largest_body: int, *, shutdown_timeout: float
) -> web.BaseRunner:
    """Runs one function that answers every request, and is cancelled when its caller disconnects.

    The function calls `read_body`.
    """

    def make_request(
        message: Any, payload: Any, protocol: Any, writer: Any, task: Any
    ) -> web.BaseRequest:
        return web.BaseRequest(
            message, payload, protocol, writer, task, task.get_loop(), client_max_size=largest_body
        )

    server = _BoundedServer(handler, make_request, handler_cancellation=True)
    return web.ServerRunner(server, shutdown_timeout=shutdown_timeout)


def application_runner(
    application: web.Application, *, shutdown_timeout: float, handler_cancellation: bool = False
) -> web.BaseRunner:
    """Runs an application, whose handlers call `read_body` before they use a body."""
    application.middlewares.append(_checking_bodies)
    return _ApplicationRunner(
        application, shutdown_timeout=shutdown_timeout, handler_cancellation=handler_cancellation
    )


@asynccontextmanager
async def serving(runner: web.BaseRunner, bound: socket.socket) -> AsyncIterator[None]:
    """Answer on this socket until the end of the block."""
    logging.getLogger("asyncio").addFilter(_DESCRIPTORS)
    logging.getLogger("aiohttp.server").addFilter(_is_not_malformed)
    try:
        await runner.setup()
        await web.SockSite(runner, bound, backlog=ACCEPTS).start()
        bound.listen(BACKLOG)
        yield
    finally:
        await runner.cleanup()
        bound.close()


def bound_socket(host: str, port: int) -> socket.socket:
    """A socket that is bound but does not listen yet. Raises OSError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
    except BaseException:
        bound.close()
        raise
    return bound


class _BoundedServer(web.Server):
    """Closes a connection whose first request does not arrive in time."""

    def __init__(
        self, handler: Any, request_factory: Callable[..., Any], *, handler_cancellation: bool
    ) -> None:
        super().__init__(
            handler,
            request_factory=self._make_bounded_request,
            handler_cancellation=handler_cancellation,
            access_log=None,
            auto_decompress=False,
            keepalive_timeout=IDLE_SECONDS,
            lingering_time=LINGER_SECONDS,
        )
        self._make_request_of_handler = request_factory
        self._waiting: dict[object, asyncio.TimerHandle] = {}

    def connection_made(self, handler: Any, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        loop = asyncio.get_running_loop()
        self._waiting[handler] = loop.call_later(HEADER_SECONDS, transport.abort)

    def connection_lost(self, handler: Any, exc: BaseException | None = None) -> None:
        self._has_arrived(handler)
        super().connection_lost(handler, exc)

    def _make_bounded_request(
        self, message: Any, payload: Any, protocol: Any, writer: Any, task: Any
    ) -> Any:
        self._has_arrived(protocol)
        return self._make_request_of_handler(message, payload, protocol, writer, task)

    def _has_arrived(self, handler: object) -> None:
        timer = self._waiting.pop(handler, None)
        if timer is not None:
            timer.cancel()


class _ApplicationRunner(web.AppRunner):
    async def _make_server(self) -> web.Server:
        made = await super()._make_server()
        return _BoundedServer(
            made.request_handler,
            made.request_factory,
            handler_cancellation=made.handler_cancellation,
        )


@web.middleware
async def _checking_bodies(request: web.Request, handler: Handler) -> web.StreamResponse:
    """The innermost middleware, so that the others can explain its errors."""
    try:
        check_body(request)
        return await handler(request)
    except RefusedRequestError as error:
        raise _http_error(error, request) from error


def _http_error(error: RefusedRequestError, request: web.Request) -> web.HTTPException:
    if error.status == 413:
        sizes = (request.client_max_size, request.content_length or 0)
        return web.HTTPRequestEntityTooLarge(*sizes, text=f"{error}\n")
    return _WORDS.get(error.status, web.HTTPBadRequest)(text=f"{error}\n")


def _is_not_malformed(record: logging.LogRecord) -> bool:
    """Whether a record is not about a request that is not HTTP: that gets a 400 and no log."""
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, HttpProcessingError)


class _DescriptorComplaints(logging.Filter):
    """Turns asyncio's complaints about missing file descriptors into one line a second."""

    def __init__(self) -> None:
        super().__init__()
        self._quiet_until = 0.0

    def filter(self, record: logging.LogRecord) -> bool:
        if not record.getMessage().startswith(_ACCEPT_FAILED):
            return True
        now = time.monotonic()
        if now < self._quiet_until:
            return False
        self._quiet_until = now + 1.0
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        record.msg = (
            f"new connections have to wait: no file descriptor is left (limit: {limit}); close "
            "idle clients, or raise the limit with `ulimit -n`"
        )
        record.args, record.exc_info, record.exc_text = (), None, None
        return True


_DESCRIPTORS = _DescriptorComplaints()
