"""What a site is to the server: a name, the first part of its addresses, and its routes."""

from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import msgspec
from aiohttp import web

from webgym.sites.errors import MissingPageError
from webgym.sites.markup import Markup

CACHED = "public, max-age=600"
ASSETS = {
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
    ".html": "text/html",
}


class Site(msgspec.Struct, frozen=True):
    """One site; its addresses begin with `/name/`."""

    name: str
    title: str
    summary: str
    routes: tuple[web.RouteDef, ...]
    folder: Path
    """Where the site's module lies, with a folder `static` of styles and scripts."""

    def all_routes(self) -> list[web.RouteDef]:
        static = Static(self.folder / "static")
        return [*self.routes, web.get(f"/{self.name}/static/{{file}}", static.send)]


class Static:
    """The files of a folder, held in memory; no address leads to any other file."""

    def __init__(self, folder: Path) -> None:
        self._files = {
            path.name: (path.read_bytes(), ASSETS[path.suffix])
            for path in sorted(folder.glob("*"))
            if path.suffix in ASSETS
        }

    async def send(self, request: web.Request) -> web.Response:
        """Raises MissingPageError."""
        found = self._files.get(request.match_info["file"])
        if found is None:
            raise MissingPageError("There is no such file.")
        body, content_type = found
        return web.Response(
            body=body,
            content_type=content_type,
            charset="utf-8",
            headers={"Cache-Control": CACHED},
        )


def page(markup: Markup, status: int = 200) -> web.Response:
    """A page as it is sent."""
    body = markup.encode("utf-8", "replace")
    return web.Response(body=body, content_type="text/html", charset="utf-8", status=status)


async def streamed(request: web.Request, parts: AsyncIterator[bytes]) -> web.StreamResponse:
    """A page that is sent part by part, as far as the visitor stays to read it."""
    response = web.StreamResponse()
    response.content_type, response.charset = "text/html", "utf-8"
    with suppress(ConnectionError):
        await response.prepare(request)
        async for part in parts:
            await response.write(part)
        await response.write_eof()
    return response


def picture(markup: Markup) -> web.Response:
    """An SVG as it is sent."""
    return web.Response(
        body=markup.encode(), content_type="image/svg+xml", headers={"Cache-Control": CACHED}
    )
