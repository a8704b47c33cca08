"""The viewer as an HTTP server: its routes, and what all responses have in common.

Every request is checked first (`access`). A request that cannot be answered gets the reason: as
JSON below `/api`, as a line of text elsewhere. For an unknown page, the page itself says so. Pages
may only load files of this server. Everything from rollouts is sent as data, with headers that stop
a browser from treating it as a page.
"""

import asyncio
import errno
import socket
import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from http import HTTPStatus
from pathlib import Path
from urllib.parse import urlencode

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler, Middleware

from rollgym.servers import bounds
from rollgym.servers.bounds import application_runner
from rollgym.servers.config.instances import Address, listening_socket
from rollgym.store import StorageError
from rollgym.viewer.errors import RequestError, ViewerError
from rollgym.viewer.http import rollouts, sources
from rollgym.viewer.http.access import METHODS, TOKEN, ViewerAccess
from rollgym.viewer.http.events import Events
from rollgym.viewer.http.files import INDEX, read_static, static_response
from rollgym.viewer.http.handling import LIBRARY, as_json, library_of
from rollgym.viewer.library import Library
from rollgym.viewer.openers import look_again, open_sources

DEFAULT_PORT = 11_001
SHUTDOWN_TIMEOUT = 1.0
_ANYWHERE = frozenset(("0.0.0.0", "::"))  # noqa: S104 - compared with, not bound


@asynccontextmanager
async def serving(paths: Sequence[Path], host: str, port: int) -> AsyncIterator[str]:
    """Serve the rollouts at the paths until the end of the block; yields the URL to open.

    Port 0 means the default port, or any free port if that one is in use. Raises ViewerError and
    StoreError.
    """
    sources = await asyncio.to_thread(open_sources, paths)
    library = Library(sources, partial(look_again, paths))
    bound = _bound(host, port)
    port = bound.getsockname()[1]
    access = ViewerAccess(host, port)
    runner = application_runner(
        application(library, access), shutdown_timeout=SHUTDOWN_TIMEOUT, handler_cancellation=True
    )
    async with bounds.serving(runner, bound):
        yield _url(host, port, access.token)


def _bound(host: str, port: int) -> socket.socket:
    try:
        return _listening(Address(host, port or DEFAULT_PORT))
    except OSError as error:
        if not port and error.errno == errno.EADDRINUSE:
            return _listening(Address(host, 0))
        raise ViewerError(
            f"cannot listen on {host} port {port or DEFAULT_PORT} ({error.strerror or error}): "
            "choose another port with --port or +server_port (0 for any free port), or another "
            "address with --host or +server_host (default 127.0.0.1)"
        ) from error


def _listening(address: Address) -> socket.socket:
    """Two sockets may be bound to a port, but only one can listen: listen at once to find out."""
    bound = listening_socket(address)
    try:
        bound.listen()
    except OSError:
        bound.close()
        raise
    return bound


def _url(host: str, port: int, token: str | None) -> str:
    shown = socket.gethostname() if host in _ANYWHERE else host
    query = f"?{urlencode({TOKEN: token})}" if token else ""
    return f"{Address(shown, port).url}/{query}"


API = "/api"
_SOURCE = f"{API}/s/{{source}}"
_ROLLOUT = f"{_SOURCE}/rollouts/{{entry}}"
PAGES = (
    "/",
    "/s/{source}",
    "/s/{source}/",
    "/s/{source}/tasks",
    "/s/{source}/tasks/{task}",
    "/s/{source}/rollouts",
    "/s/{source}/rollouts/{entry}",
    "/s/{source}/live",
    "/compare",
    "/configuration",
)
_NO_PAGE = r"/{path:(?!(?:api|static)/).*}"
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'"
)
DATA_POLICY = (
    "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; sandbox"
)
_WORDS = {
    HTTPStatus.METHOD_NOT_ALLOWED: "Use GET for this address.",
    HTTPStatus.NOT_FOUND: "There is no such page.",
}
HEADERS = {
    "Server": "rollgym viewer",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), display-capture=(), geolocation=(), microphone=(), usb=()",
}


def application(library: Library, access: ViewerAccess) -> web.Application:
    """The application, which starts the library when it starts and closes it when it ends."""
    events = Events(library)
    served = web.Application(middlewares=[_checking(access)])
    served[LIBRARY] = library
    served.on_response_prepare.append(_add_headers)
    served.on_shutdown.append(events.close)
    served.cleanup_ctx.append(_open_while_serving)
    served.add_routes(
        [
            *(web.get(path, _page) for path in PAGES),
            web.get("/static/{name}", _static),
            web.get(f"{API}/sources", sources.sources),
            web.get(f"{API}/joined", sources.joined),
            web.get(f"{API}/configuration", sources.configuration),
            web.get(f"{API}/events", events.stream, allow_head=False),
            web.get(f"{_SOURCE}/overview", sources.overview),
            web.get(f"{_SOURCE}/facets", sources.facets),
            web.get(f"{_SOURCE}/tasks", sources.tasks),
            web.get(f"{_SOURCE}/tasks/{{task}}/repeats", rollouts.repeats),
            web.get(f"{_SOURCE}/monitor", sources.monitor),
            web.get(f"{_SOURCE}/pictures/{{file:.+}}", rollouts.picture_file),
            web.get(f"{_SOURCE}/har/{{file:.+}}", rollouts.har_file),
            web.get(f"{_SOURCE}/export.jsonl", sources.export, allow_head=False),
            web.get(f"{_SOURCE}/rollouts", sources.listing),
            web.get(_ROLLOUT, rollouts.rollout),
            web.get(f"{_ROLLOUT}/turns", rollouts.turns),
            web.get(f"{_ROLLOUT}/tokens", rollouts.tokens),
            web.get(f"{_ROLLOUT}/steps", rollouts.steps),
            web.get(f"{_ROLLOUT}/neighbours", rollouts.neighbours),
            web.get(f"{_ROLLOUT}/raw", rollouts.raw),
            web.get(f"{_ROLLOUT}/text", rollouts.text),
            web.get(f"{_ROLLOUT}/find", rollouts.find),
            web.get(f"{_ROLLOUT}/picture", rollouts.picture),
            web.get(f"{_ROLLOUT}/page.html", rollouts.offline_page, allow_head=False),
            web.get(_NO_PAGE, _no_page),
        ]
    )
    return served


async def _open_while_serving(served: web.Application) -> AsyncIterator[None]:
    library = served[LIBRARY]
    library.start()
    yield
    await asyncio.to_thread(library.close)


async def _page(request: web.Request) -> web.Response:
    return await _index_page(request, HTTPStatus.OK)


async def _no_page(request: web.Request) -> web.Response:
    return await _index_page(request, HTTPStatus.NOT_FOUND)


async def _index_page(request: web.Request, status: HTTPStatus) -> web.Response:
    """The page, which reads from its URL what to show."""
    body = await library_of(request).work(lambda: read_static(INDEX))
    return web.Response(body=body, status=status, content_type="text/html", charset="utf-8")


async def _static(request: web.Request) -> web.Response:
    name = request.match_info["name"]
    body = await library_of(request).work(lambda: read_static(name))
    return static_response(request, name, body)


def _checking(access: ViewerAccess) -> Middleware:
    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            access.check(request)
            return await handler(request)
        except RequestError as error:
            return _rejection(request, error.status, str(error))
        except StorageError as error:
            return _rejection(request, HTTPStatus.SERVICE_UNAVAILABLE, str(error))
        except sqlite3.Error as error:
            words = f"Cannot read the index ({error}). Try again, or restart the viewer."
            return _rejection(request, HTTPStatus.SERVICE_UNAVAILABLE, words)
        except web.HTTPClientError as error:
            words = _WORDS.get(HTTPStatus(error.status), error.text or "")
            return _rejection(request, HTTPStatus(error.status), words)

    return check


def _rejection(request: web.Request, status: HTTPStatus, message: str) -> web.Response:
    if request.path.startswith(f"{API}/"):
        answer = as_json({"error": message}, status)
    else:
        answer = web.Response(text=f"{status.phrase}: {message}\n", status=status)
    if status == HTTPStatus.METHOD_NOT_ALLOWED:
        answer.headers[hdrs.ALLOW] = ", ".join(METHODS)
    return answer


async def _add_headers(_: web.Request, response: web.StreamResponse) -> None:
    is_page = (
        response.content_type == "text/html" and hdrs.CONTENT_DISPOSITION not in response.headers
    )
    response.headers.update(HEADERS)
    response.headers["Content-Security-Policy"] = PAGE_POLICY if is_page else DATA_POLICY
    response.headers.setdefault(hdrs.CACHE_CONTROL, "no-store")
