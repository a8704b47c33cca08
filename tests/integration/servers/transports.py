"""The two transports to a server, so that one test runs over both."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from enum import StrEnum

from rollgym.servers import Http, Server, ServerClient, connect, http_session, listening
from tests.cases import for_each


class Transport(StrEnum):
    IN_PROCESS = "in process"
    HTTP = "http"


over_both = for_each("transport", list(Transport))
"""Runs a test in one process and over HTTP."""


class Clients:
    """A directory whose servers are entered as they come up."""

    def __init__(self) -> None:
        self.known: dict[str, ServerClient] = {}

    def client(self, name: str) -> ServerClient:
        return self.known[name]


@asynccontextmanager
async def reach(server: Server, transport: Transport) -> AsyncIterator[ServerClient]:
    """A client of a server that is started for the block."""
    await server.start()
    try:
        if transport is Transport.IN_PROCESS:
            yield connect(server, server.name)
        else:
            async with listening(server) as port, http_session() as session:
                yield ServerClient(server.name, [Http(f"http://127.0.0.1:{port}", session)])
    finally:
        await server.close()
