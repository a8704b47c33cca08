"""The tasks on a port."""

import errno
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from rollgym.servers.config import Address, listening_socket
from webgym.miniwob.application import MiniWob
from webgym.miniwob.errors import MiniWobError
from webgym.miniwob.package import Package, find_package

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 7310
DEFAULT_BASE = f"http://{DEFAULT_HOST}:{DEFAULT_PORT}"
SHUTDOWN_TIMEOUT = 0.5


@asynccontextmanager
async def serving(
    host: str = DEFAULT_HOST, port: int = DEFAULT_PORT, package: Package | None = None
) -> AsyncIterator[str]:
    """Serve all tasks until the end of the block; gives their URL, without a slash at its end.

    Port 0 is any that is free. Raises MiniWobError.
    """
    application = MiniWob(package or find_package()).application()
    try:
        bound = listening_socket(Address(host, port))
    except OSError as error:
        taken = error.errno == errno.EADDRINUSE
        raise MiniWobError(
            f"cannot listen on {host} port {port} ({error.strerror or error}): "
            + ("choose another with --port, or 0 for any" if taken else "choose another --host")
        ) from error
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=SHUTDOWN_TIMEOUT)
    try:
        await runner.setup()
        await web.SockSite(runner, bound).start()
        yield Address(host, bound.getsockname()[1]).url
    finally:
        await runner.cleanup()
        bound.close()
