"""The viewer on a port."""

import errno
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlencode

from aiohttp import web

from rollgym.servers.config import Address, listening_socket, suggestion
from rollgym.viewer.access import TOKEN, Access
from rollgym.viewer.application import Viewer
from rollgym.viewer.errors import ViewerError

DEFAULT_PORT = 11_001
SHUTDOWN_TIMEOUT = 1.0
_ANYWHERE = frozenset(("0.0.0.0", "::"))  # noqa: S104 - compared with, not bound


@asynccontextmanager
async def serving(path: Path, host: str, port: int) -> AsyncIterator[str]:
    """Show the file until the end of the block; gives the URL to open.

    Port 0 is the usual one, or any other where that is taken. Raises ViewerError.
    """
    _require_file(path)
    bound = _bound(host, port)
    port = bound.getsockname()[1]
    access = Access(host, port)
    runner = web.AppRunner(
        Viewer(path).application(access), access_log=None, shutdown_timeout=SHUTDOWN_TIMEOUT
    )
    try:
        await runner.setup()
        await web.SockSite(runner, bound).start()
        yield _url(host, port, access.token)
    finally:
        await runner.cleanup()
        bound.close()


def _require_file(path: Path) -> None:
    if path.is_file():
        return
    if path.exists():
        raise ViewerError(f"{path} is no file: name one with rollouts, as in results/x.jsonl")
    beside = [file.name for file in path.parent.glob("*.jsonl")]
    raise ViewerError(
        f"there is no file {path}{suggestion(path.name, beside)}: check the path, or collect "
        "rollouts first with ng_collect_rollouts"
    )


def _bound(host: str, port: int) -> socket.socket:
    try:
        return _listening(Address(host, port or DEFAULT_PORT))
    except OSError as error:
        if not port and error.errno == errno.EADDRINUSE:
            return _listening(Address(host, 0))
        raise ViewerError(
            f"cannot listen on {host} port {port or DEFAULT_PORT} ({error.strerror or error}): "
            "choose another with --port or +server_port, or 0 for any; without --host or "
            "+server_host it is 127.0.0.1"
        ) from error


def _listening(address: Address) -> socket.socket:
    """Two may be bound to a port, but one listens; who comes second learns it here."""
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
