"""The viewer as an HTTP server."""

import asyncio
import errno
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from urllib.parse import urlencode

from aiohttp import web

from rollgym.servers.config import Address, listening_socket
from rollgym.viewer.errors import ViewerError
from rollgym.viewer.http.access import TOKEN, ViewerAccess
from rollgym.viewer.http.application import application
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
    runner = web.AppRunner(
        application(library, access),
        access_log=None,
        shutdown_timeout=SHUTDOWN_TIMEOUT,
        handler_cancellation=True,
    )
    try:
        await runner.setup()
        await web.SockSite(runner, bound).start()
        yield _url(host, port, access.token)
    finally:
        await runner.cleanup()
        bound.close()


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
