"""The sites on a port."""

import errno
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from rollgym.servers.config import Address, listening_socket
from webgym.sites.application import make_application
from webgym.sites.errors import SitesError
from webgym.sites.names import DEFAULT_HOST, DEFAULT_PORT

SHUTDOWN_TIMEOUT = 0.5


@asynccontextmanager
async def serving(host: str = DEFAULT_HOST, port: int = DEFAULT_PORT) -> AsyncIterator[str]:
    """Serve all the sites until the end of the block; gives their URL, without a slash at its end.

    Port 0 is any that is free. Raises SitesError.
    """
    try:
        bound = listening_socket(Address(host, port))
    except OSError as error:
        taken = error.errno == errno.EADDRINUSE
        raise SitesError(
            f"cannot listen on {host} port {port} ({error.strerror or error}): "
            + ("choose another with --port, or 0 for any" if taken else "choose another --host")
        ) from error
    runner = web.AppRunner(make_application(), access_log=None, shutdown_timeout=SHUTDOWN_TIMEOUT)
    try:
        await runner.setup()
        await web.SockSite(runner, bound).start()
        yield Address(host, bound.getsockname()[1]).url
    finally:
        await runner.cleanup()
        bound.close()
