"""The pages of the encyclopedia."""

from urllib.parse import quote

from webgym.sites.encyclopedia.article import Article, Heading
from webgym.sites.encyclopedia.frame import TEMPLATES, category_links, frame
from webgym.sites.encyclopedia.library import ARTICLES, CATEGORIES, Result, find
from webgym.sites.encyclopedia.rendering import blocks_of, inline, link, url_of
from webgym.sites.markup import Content, Markup, Template

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
    """The article; where it was found under another title, it says so."""
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


def results_page(text: str, results: list[Result]) -> Markup:
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
