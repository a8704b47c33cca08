"""Where a server finds the others: by a call in this process, or behind their URLs."""

from collections.abc import Mapping, Sequence

import aiohttp

from rollgym.servers.client import Http, InProcess, RequestHandler, ServerClient, http_session


class Directory:
    """The servers of a run as one process sees them.

    Servers of this process are entered as they are made; all others are behind URLs.
    """

    def __init__(self, urls: Mapping[str, Sequence[str]]) -> None:
        self._urls = urls
        self._session: aiohttp.ClientSession | None = None
        self._clients: dict[str, ServerClient] = {}

    def enter(self, name: str, server: RequestHandler) -> None:
        """From now on the server of this name is called directly."""
        self._clients[name] = ServerClient(name, [InProcess(server)])

    def client(self, name: str) -> ServerClient:
        """Raises KeyError for a name that no server has."""
        if name not in self._clients:
            urls = self._urls[name]
            session = self._open_session()
            self._clients[name] = ServerClient(name, [Http(url, session) for url in urls])
        return self._clients[name]

    async def close(self) -> None:
        """Give back the connections."""
        if self._session is not None:
            await self._session.close()

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = http_session()
        return self._session
