"""From the encyclopedia's addresses to its pages."""

from http import HTTPStatus
from pathlib import Path

from aiohttp import web

from webgym.sites.bounds import SEARCHES_KEPT, remember
from webgym.sites.encyclopedia import pages
from webgym.sites.encyclopedia.library import ARTICLES, CATEGORIES, find, search
from webgym.sites.encyclopedia.rendering import url_of
from webgym.sites.encyclopedia.state import TITLES_KEPT
from webgym.sites.errors import MissingPageError
from webgym.sites.forms import asked
from webgym.sites.site import Site, page
from webgym.sites.visitors import session_of

TITLE_CHARACTERS = 120


async def _main(_: web.Request) -> web.Response:
    return page(pages.main_page())


async def _article(request: web.Request) -> web.Response:
    title = request.match_info["title"].replace("_", " ").strip()[:TITLE_CHARACTERS]
    article = find(title)
    if article is None:
        return page(pages.missing_page(title), HTTPStatus.NOT_FOUND)
    remember(session_of(request).encyclopedia.read, article.title, TITLES_KEPT)
    return page(pages.article_page(article, title))


async def _search(request: web.Request) -> web.Response:
    """As readers expect: the exact title of an article leads to it."""
    text = asked(request).get("q", "")
    if text:
        remember(session_of(request).encyclopedia.searches, text, SEARCHES_KEPT)
    article = find(text)
    if article is not None:
        raise web.HTTPSeeOther(url_of(text if text[:1].isupper() else article.title))
    return page(pages.results_page(text, search(text)))


async def _all(_: web.Request) -> web.Response:
    return page(pages.listing_page("All articles", list(ARTICLES)))


async def _category(request: web.Request) -> web.Response:
    name = request.match_info["name"]
    if name not in CATEGORIES:
        raise MissingPageError("There is no such category.")
    found = [article for article in ARTICLES if name in article.categories]
    return page(pages.listing_page(f"Category: {name}", found))


ENCYCLOPEDIA = Site(
    name="encyclopedia",
    title="The Isles Compendium",
    summary="An encyclopedia: long articles, tables, notes, search.",
    folder=Path(__file__).parent,
    routes=(
        web.get("/encyclopedia/", _main),
        web.get("/encyclopedia/all", _all),
        web.get("/encyclopedia/search", _search),
        web.get("/encyclopedia/category/{name}", _category),
        web.get("/encyclopedia/wiki/{title}", _article),
    ),
)
