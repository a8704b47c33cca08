"""For the tests of plug-ins: a started server and a client of it, in process or over HTTP."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from rollgym.servers.client import ServerClient, connect
from rollgym.servers.http_client import Http, http_session
from rollgym.servers.http_server import LOOPBACK, listening
from rollgym.servers.server import Server


@asynccontextmanager
async def reached(server: Server, *, over_http: bool = False) -> AsyncIterator[ServerClient]:
    """Start the server for the block; yields a client of it."""
    await server.start()
    try:
        if over_http:
            async with listening(server) as port, http_session() as session:
                yield ServerClient(server.name, [Http(f"http://{LOOPBACK}:{port}", session)])
        else:
            yield connect(server, server.name)
    finally:
        await server.close()
