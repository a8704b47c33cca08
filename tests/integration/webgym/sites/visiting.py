"""A visitor of the served sites: one cookie jar, and pages that can be looked into."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from html.parser import HTMLParser
from typing import Any, TypeVar

import aiohttp

from webgym.sites.application import serving

LOOPBACK = "127.0.0.1"
T = TypeVar("T")


class Page(HTMLParser):
    """An answer: its status, headers and text, and the links and elements in it."""

    def __init__(self, url: str, status: int, headers: Mapping[str, str], body: str) -> None:
        super().__init__()
        self.url, self.status, self.headers, self.body = url, status, headers, body
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.feed(body)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    @property
    def addresses(self) -> set[str]:
        """Where links, pictures, scripts and frames lead."""
        found = {
            value
            for _, attributes in self.elements
            for name in ("href", "src")
            if (value := attributes.get(name))
        }
        return {address.partition("#")[0] for address in found}

    def count(self, tag: str) -> int:
        return sum(name == tag for name, _ in self.elements)


class Visitor:
    """Somebody with a cookie jar of their own."""

    def __init__(self, base: str, session: aiohttp.ClientSession) -> None:
        self.base = base
        self._session = session

    async def get(self, path: str, **options: Any) -> Page:
        return await self._ask("GET", path, **options)

    async def post(self, path: str, fields: Mapping[str, str] | None = None, **rest: Any) -> Page:
        return await self._ask("POST", path, data=fields, **rest)

    async def truth(self, name: str = "") -> dict[str, Any]:
        async with self._session.get(f"{self.base}/_truth{'/' if name else ''}{name}") as answer:
            found: dict[str, Any] = await answer.json()
            return found

    async def _ask(self, method: str, path: str, **options: Any) -> Page:
        async with self._session.request(method, self.base + path, **options) as answer:
            text = await answer.text(errors="replace")
            return Page(str(answer.url.relative()), answer.status, answer.headers, text)


@asynccontextmanager
async def visitor(base: str) -> AsyncIterator[Visitor]:
    jar = aiohttp.CookieJar(unsafe=True)  # also for hosts that are addresses
    timeout = aiohttp.ClientTimeout(total=30)
    async with aiohttp.ClientSession(cookie_jar=jar, timeout=timeout) as session:
        yield Visitor(base, session)


def visit(act: Callable[[Visitor], Awaitable[T]]) -> T:
    """Serve the sites and let one visitor act on them."""

    async def visiting() -> T:
        async with serving(LOOPBACK, 0) as base, visitor(base) as one:
            return await act(one)

    return asyncio.run(visiting())
