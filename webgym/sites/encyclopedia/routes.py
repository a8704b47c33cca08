"""The routes of the encyclopedia."""

from http import HTTPStatus
from pathlib import Path

from aiohttp import web

from webgym.sites.encyclopedia import pages
from webgym.sites.encyclopedia.article import ARTICLES, CATEGORIES, find, search
from webgym.sites.encyclopedia.pages import url_of
from webgym.sites.errors import MissingPageError
from webgym.sites.sessions import SEARCHES_KEPT, TITLES_KEPT, session_of
from webgym.sites.site import Site, append_bounded, page_response, read_query

TITLE_CHARACTERS = 120


ENCYCLOPEDIA = Site(
    name="encyclopedia",
    title="The Isles Compendium",
    summary="An encyclopedia: long articles, tables, notes, search.",
    folder=Path(__file__).parent,
)


@ENCYCLOPEDIA.get("")
async def _main(_: web.Request) -> web.Response:
    return page_response(pages.main_page())


@ENCYCLOPEDIA.get("wiki/{title}")
async def _article(request: web.Request) -> web.Response:
    title = request.match_info["title"].replace("_", " ").strip()[:TITLE_CHARACTERS]
    article = find(title)
    if article is None:
        return page_response(pages.missing_page(title), HTTPStatus.NOT_FOUND)
    append_bounded(session_of(request).encyclopedia.read, article.title, TITLES_KEPT)
    return page_response(pages.article_page(article, title))


@ENCYCLOPEDIA.get("search")
async def _search(request: web.Request) -> web.Response:
    """Search; the exact title of an article redirects to the article."""
    text = read_query(request).get("q", "")
    if text:
        append_bounded(session_of(request).encyclopedia.searches, text, SEARCHES_KEPT)
    article = find(text)
    if article is not None:
        raise web.HTTPSeeOther(url_of(text if text[:1].isupper() else article.title))
    return page_response(pages.results_page(text, search(text)))


@ENCYCLOPEDIA.get("all")
async def _all(_: web.Request) -> web.Response:
    return page_response(pages.listing_page("All articles", list(ARTICLES)))


@ENCYCLOPEDIA.get("category/{name}")
async def _category(request: web.Request) -> web.Response:
    name = request.match_info["name"]
    if name not in CATEGORIES:
        raise MissingPageError("There is no such category.")
    found = [article for article in ARTICLES if name in article.categories]
    return page_response(pages.listing_page(f"Category: {name}", found))
