"""The pages of the encyclopedia: how articles become HTML, and where each page is served."""

import re
from collections.abc import Iterable, Iterator
from http import HTTPStatus
from pathlib import Path
from urllib.parse import quote

from aiohttp import web

from webgym.sites.encyclopedia.article import (
    ARTICLES,
    CATEGORIES,
    Article,
    ArticleMatch,
    ArticleTable,
    Block,
    BulletList,
    Heading,
    Paragraph,
    find,
    search,
)
from webgym.sites.errors import MissingPageError
from webgym.sites.sessions import SEARCHES_KEPT, TITLES_KEPT, session_of
from webgym.sites.site import (
    Content,
    Markup,
    Site,
    Template,
    append_bounded,
    page_response,
    read_query,
    rendered,
)

TEMPLATES = Path(__file__).with_name("templates")
_FRAME = Template.of(TEMPLATES / "frame.html")
_CATEGORY = Template('<a href="/encyclopedia/category/{name}">{name}</a>')


def frame(title: str, body: Content, text: str = "") -> Markup:
    """The whole page; `text` is in the search box."""
    return _FRAME(title=title, body=body, text=text, categories=category_links(CATEGORIES))


def category_links(names: list[str]) -> list[Markup]:
    return [_CATEGORY(name=name) for name in names]


_INLINE = re.compile(
    r"\[\[(?P<target>[^\]|]+)(?:\|(?P<shown>[^\]]+))?\]\]"
    r"|\[\^(?P<note>\d+)\]|\*\*(?P<bold>.+?)\*\*|//(?P<italic>.+?)//"
)
_LINK = Template('<a href="{url}">{text}</a>')
_RED_LINK = Template('<a class="missing" href="{url}">{text}</a>')
_NOTE_LINK = Template(
    '<sup class="ref" id="ref-{number}"><a href="#note-{number}" aria-label="Note {number}">'
    "[{number}]</a></sup>"
)
_BOLD = Template("<b>{text}</b>")
_ITALIC = Template("<i>{text}</i>")
_H2 = Template('<h2 id="{anchor}">{text}</h2>')
_H3 = Template('<h3 id="{anchor}">{text}</h3>')
_P = Template("<p>{text}</p>")
_UL = Template("<ul>{items}</ul>")
_LI = Template("<li>{text}</li>")
_TABLE = Template('<table class="data"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>')
_TH = Template("<th>{text}</th>")
_TR = Template("<tr>{cells}</tr>")
_TD = Template("<td>{text}</td>")


def url_of(title: str) -> str:
    return "/encyclopedia/wiki/" + quote(title.replace(" ", "_"), safe="()")


def inline(text: str) -> Markup:
    """A line of an article as HTML, with its links and styles."""
    return rendered(_pieces(text))


def blocks_of(blocks: Iterable[Block]) -> Markup:
    return rendered(map(_shown, blocks))


def _pieces(text: str) -> Iterator[Markup]:
    last = 0
    for found in _INLINE.finditer(text):
        yield rendered(text[last : found.start()])
        last = found.end()
        if found["target"]:
            yield link(found["target"], found["shown"] or found["target"])
        elif found["note"]:
            yield _NOTE_LINK(number=found["note"])
        elif found["bold"]:
            yield _BOLD(text=found["bold"])
        else:
            yield _ITALIC(text=found["italic"])
    yield rendered(text[last:])


def link(title: str, shown: str) -> Markup:
    template = _LINK if find(title) else _RED_LINK
    return template(url=url_of(title), text=shown)


def _shown(block: Block) -> Markup:
    match block:
        case Heading(level=2):
            return _H2(anchor=block.anchor, text=block.text)
        case Heading():
            return _H3(anchor=block.anchor, text=block.text)
        case Paragraph():
            return _P(text=inline(block.text))
        case BulletList():
            return _UL(items=[_LI(text=inline(item)) for item in block.items])
        case ArticleTable():
            return _TABLE(
                head=[_TH(text=inline(cell)) for cell in block.head],
                rows=[_TR(cells=[_TD(text=inline(cell)) for cell in row]) for row in block.rows],
            )


_ARTICLE = Template.of(TEMPLATES / "article.html")
_MAIN = Template.of(TEMPLATES / "main.html")
_INFOBOX = Template(
    '<table class="infobox"><caption>{title}</caption><tbody>{picture}{rows}</tbody></table>'
)
_PICTURE = Template(
    '<tr><td colspan="2"><img src="/encyclopedia/static/scene-{drawing}.svg" '
    'alt="Drawing: {drawing}" width="280" height="170"></td></tr>'
)
_FACT = Template("<tr><th>{name}</th><td>{value}</td></tr>")
_CONTENTS = Template(
    '<nav class="contents" aria-label="Contents"><h2>Contents</h2>'
    '<button type="button" aria-expanded="true">hide</button><ol>{items}</ol></nav>'
)
_ENTRY = Template('<li class="level{level}"><a href="#{anchor}">{number} {text}</a></li>')
_NOTES = Template('<h2 id="Notes">Notes</h2><ol class="notes">{items}</ol>')
_NOTE = Template('<li id="note-{number}"><a href="#ref-{number}">↑</a> {text}</li>')
_CATEGORIES = Template('<p class="tags">Categories: {links}</p>')
_REDIRECT = Template(" (redirected from “{title}”)")
_ITEM = Template("<li>{content}</li>")
_PARAGRAPH = Template("<p>{text}</p>")
_RESULTS = Template('<h1>Search results</h1><p>{summary}</p><ul class="results">{items}</ul>')
_RESULT = Template('<li><a href="{url}">{title}</a><p>{snippet}</p></li>')
_LISTING = Template('<h1>{title}</h1><p>{summary}</p><ul class="index">{items}</ul>')
_MISSING = Template(
    "<h1>{title}</h1><p>The Compendium has no article with this title. You can "
    '<a href="/encyclopedia/search?q={query}">search for it</a> or look at '
    '<a href="/encyclopedia/all">all articles</a>.</p>'
)
_DID_YOU_KNOW = (
    "that the foxes of [[Mount Cald]] left it ten days before the eruption of 1947?",
    "that geese once paid half a mark each to cross the [[Arkwell Bridge]]?",
    "that cellos travel free on the [[Orrin National Railway]]?",
    "that the second bowl of the [[Ulven Regatta]] lies at the bottom of the lake?",
)


def main_page() -> Markup:
    longest = sorted(ARTICLES, key=lambda each: -len(each.blocks))[:6]
    featured = find("Selwick Lighthouse")
    body = _MAIN(
        count=len(ARTICLES),
        featured=_PARAGRAPH(text=inline(featured.lead)) if featured else None,
        known=[_ITEM(content=inline(text)) for text in _DID_YOU_KNOW],
        categories=category_links(CATEGORIES),
        longest=[_ITEM(content=link(each.title, each.title)) for each in longest],
    )
    return frame("Main page", body)


def article_page(article: Article, asked_for: str) -> Markup:
    """The article; it says so if it was opened by another title."""
    blocks = article.blocks
    first = next((at for at, block in enumerate(blocks) if isinstance(block, Heading)), len(blocks))
    body = _ARTICLE(
        title=article.title,
        redirect=_REDIRECT(title=asked_for) if asked_for != article.title else None,
        infobox=_infobox(article),
        lead=blocks_of(blocks[:first]),
        contents=_contents(article),
        rest=blocks_of(blocks[first:]),
        notes=_notes(article),
        categories=_CATEGORIES(links=category_links(list(article.categories))),
    )
    return frame(article.title, body)


def missing_page(title: str) -> Markup:
    return frame(title, _MISSING(title=title, query=quote(title)))


def results_page(text: str, results: list[ArticleMatch]) -> Markup:
    count = f"{len(results)} article{'' if len(results) == 1 else 's'}"
    body = _RESULTS(
        summary=f"{count} for “{text}”" if text else "Type what you look for into the box above.",
        items=[
            _RESULT(
                url=url_of(result.article.title),
                title=result.article.title,
                snippet=result.snippet,
            )
            for result in results
        ],
    )
    return frame("Search results", body, text)


def listing_page(title: str, articles: list[Article]) -> Markup:
    body = _LISTING(
        title=title,
        summary=f"{len(articles)} articles",
        items=[_ITEM(content=link(each.title, each.title)) for each in articles],
    )
    return frame(title, body)


def _infobox(article: Article) -> Content:
    if not article.facts:
        return None
    return _INFOBOX(
        title=article.title,
        picture=_PICTURE(drawing=article.drawing) if article.drawing else None,
        rows=[_FACT(name=name, value=inline(value)) for name, value in article.facts],
    )


def _contents(article: Article) -> Content:
    if len(article.headings) < 3 or article.is_disambiguation:
        return None
    items, major, minor = [], 0, 0
    for heading in article.headings:
        if heading.level == 2:
            major, minor = major + 1, 0
        else:
            minor += 1
        items.append(
            _ENTRY(
                level=heading.level,
                anchor=heading.anchor,
                number=f"{major}.{minor}" if minor else str(major),
                text=heading.text,
            )
        )
    return _CONTENTS(items=items)


def _notes(article: Article) -> Content:
    if not article.notes:
        return None
    return _NOTES(
        items=[
            _NOTE(number=number, text=inline(text))
            for number, text in enumerate(article.notes, start=1)
        ]
    )


TITLE_CHARACTERS = 120


ENCYCLOPEDIA = Site(
    name="encyclopedia",
    title="The Isles Compendium",
    summary="An encyclopedia: long articles, tables, notes, search.",
    folder=Path(__file__).parent,
)


@ENCYCLOPEDIA.get("")
async def _main(_: web.Request) -> web.Response:
    return page_response(main_page())


@ENCYCLOPEDIA.get("wiki/{title}")
async def _article(request: web.Request) -> web.Response:
    title = request.match_info["title"].replace("_", " ").strip()[:TITLE_CHARACTERS]
    article = find(title)
    if article is None:
        return page_response(missing_page(title), HTTPStatus.NOT_FOUND)
    append_bounded(session_of(request).encyclopedia.read, article.title, TITLES_KEPT)
    return page_response(article_page(article, title))


@ENCYCLOPEDIA.get("search")
async def _search(request: web.Request) -> web.Response:
    """Search; the exact title of an article redirects to the article."""
    text = read_query(request).get("q", "")
    if text:
        append_bounded(session_of(request).encyclopedia.searches, text, SEARCHES_KEPT)
    article = find(text)
    if article is not None:
        raise web.HTTPSeeOther(url_of(text if text[:1].isupper() else article.title))
    return page_response(results_page(text, search(text)))


@ENCYCLOPEDIA.get("all")
async def _all(_: web.Request) -> web.Response:
    return page_response(listing_page("All articles", list(ARTICLES)))


@ENCYCLOPEDIA.get("category/{name}")
async def _category(request: web.Request) -> web.Response:
    name = request.match_info["name"]
    if name not in CATEGORIES:
        raise MissingPageError("There is no such category.")
    found = [article for article in ARTICLES if name in article.categories]
    return page_response(listing_page(f"Category: {name}", found))
