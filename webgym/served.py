"""A web application on a port, for as long as a block lasts: the sites, MiniWoB++, the policies."""

import errno
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from rollgym.servers.config import Address, listening_socket

SHUTDOWN_TIMEOUT = 0.5


@asynccontextmanager
async def served(
    application: web.Application, host: str, port: int, refusal: type[Exception]
) -> AsyncIterator[str]:
    """Serve it until the end of the block; gives its URL, without a slash at its end.

    Port 0 is any that is free. Raises `refusal` where nobody can listen there.
    """
    try:
        bound = listening_socket(Address(host, port))
    except OSError as error:
        taken = error.errno == errno.EADDRINUSE
        raise refusal(
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
