"""A real viewer on a real port, and what it answers."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
import msgspec
from yarl import URL

from rollgym.viewer.server import serving

LOOPBACK = "127.0.0.1"
PATIENCE = 30.0
T = TypeVar("T")


class Answer:
    """A response that has come as a whole."""

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.body = body

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)

    @property
    def error(self) -> str:
        """The words of a refusal."""
        return str(self.json["error"])


class Browser:
    """Asks one viewer. URLs are sent as they are written."""

    def __init__(self, root: str, session: aiohttp.ClientSession) -> None:
        self.root = root.partition("?")[0].rstrip("/")
        self.session = session

    async def get(self, url: str, *, method: str = "GET", **headers: str) -> Answer:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        asked = self.session.request(
            method, URL(self.root + url, encoded=True), headers=named, allow_redirects=False
        )
        async with asyncio.timeout(PATIENCE), asked as response:
            return Answer(response.status, response.headers, await response.read())

    async def ready(self) -> list[dict[str, Any]]:
        """The sources, once all of them have been read."""
        return await until(self._sources, lambda found: all(s["state"]["ready"] for s in found))

    async def _sources(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await self.get("/api/sources")).json["sources"]
        return found


async def until(ask: Callable[[], Awaitable[T]], holds: Callable[[T], bool]) -> T:
    """Ask until the answer is as it should be."""
    async with asyncio.timeout(PATIENCE):
        while not holds(answer := await ask()):  # noqa: ASYNC110 - it is elsewhere
            await asyncio.sleep(0.05)
        return answer


@asynccontextmanager
async def browsing(*paths: Path, host: str = LOOPBACK) -> AsyncIterator[Browser]:
    """A browser in front of a viewer that has read everything."""
    async with serving(paths, host, 0) as root, aiohttp.ClientSession() as session:
        browser = Browser(root, session)
        await browser.ready()
        yield browser


def browse(path: Path, *urls: str, **headers: str) -> list[Answer]:
    """Ask for the URLs one after the other."""

    async def ask() -> list[Answer]:
        async with browsing(path) as browser:
            return [await browser.get(url, **headers) for url in urls]

    return asyncio.run(ask())
