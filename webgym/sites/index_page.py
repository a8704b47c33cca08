"""The page before all the sites, and the page for what went wrong."""

from collections.abc import Sequence
from http import HTTPStatus
from pathlib import Path

from aiohttp import web

from webgym.sites.markup import Markup, Template
from webgym.sites.site import Site, Static, page

_FOLDER = Path(__file__).parent
_PAGE = Template.of(_FOLDER / "index.html")
_INDEX = Template(
    "<h1>Test sites</h1><p>A small web of our own. Nothing in it is real.</p><ul>{items}</ul>"
)
_ITEM = Template('<li><a href="/{name}/">{title}</a><p>{summary}</p></li>')
_ERROR = Template(
    '<h1>{phrase}</h1><p>{message}</p><p><a href="{back}">Back to the start page</a></p>'
)


def routes(sites: Sequence[Site]) -> list[web.RouteDef]:
    items = [_ITEM(name=site.name, title=site.title, summary=site.summary) for site in sites]
    shown = _PAGE(title="Test sites", body=_INDEX(items=items))

    async def show(_: web.Request) -> web.Response:
        return page(shown)

    static = Static(_FOLDER / "static")
    moves = [web.get(f"/{site.name}", _add_slash) for site in sites]
    return [web.get("/", show), web.get("/static/{file}", static.send), *moves]


def error_page(path: str, status: HTTPStatus, message: str) -> Markup:
    """What is shown in place of a page, with a way back to the site it was asked of."""
    site = path.split("/")[1] if path.count("/") > 1 else ""
    back = f"/{site}/" if site.isalpha() else "/"
    title = f"{status.value} {status.phrase}"
    return _PAGE(title=title, body=_ERROR(phrase=title, message=message, back=back))


async def _add_slash(request: web.Request) -> web.Response:
    raise web.HTTPMovedPermanently(f"{request.path}/")
