"""All the articles, by their titles, and finding in them."""

import re
from pathlib import Path

import msgspec

from webgym.sites.encyclopedia.article import Article, parse, plain_text

SNIPPET = 180
RESULTS = 20


class Result(msgspec.Struct, frozen=True):
    """An article that was found, with the place in it that fits best."""

    article: Article
    snippet: str


def find(title: str) -> Article | None:
    """The article with this title, or with this as another title; case does not matter."""
    return _BY_TITLE.get(_key(title))


def search(text: str) -> list[Result]:
    """Articles that have all the words, those with them in the title first."""
    words = re.findall(r"\w+", text.casefold())
    if not words:
        return []
    scored = []
    for article in ARTICLES:
        body = _TEXTS[article.title].casefold()
        counts = [len(re.findall(rf"\b{re.escape(word)}", body)) for word in words]
        if all(counts):
            titled = sum(word in article.title.casefold() for word in words)
            scored.append((-100 * titled - sum(min(count, 20) for count in counts), article))
    scored.sort(key=lambda pair: (pair[0], pair[1].title))
    return [Result(article, _snippet(article, words)) for _, article in scored[:RESULTS]]


def _snippet(article: Article, words: list[str]) -> str:
    """The stretch of text with the most of the words."""
    lines = _TEXTS[article.title].split("\n")[1:]
    best = max(lines, key=lambda line: sum(word in line.casefold() for word in words))
    found = [best.casefold().find(word) for word in words]
    start = max(0, min((place for place in found if place >= 0), default=0) - 60)
    shown = best[start : start + SNIPPET]
    return f"{'…' if start else ''}{shown}{'…' if start + SNIPPET < len(best) else ''}"


def _key(title: str) -> str:
    return title.replace("_", " ").strip().casefold()


def _read() -> tuple[Article, ...]:
    folder = Path(__file__).with_name("articles")
    found = [parse(path.read_text(encoding="utf-8")) for path in folder.glob("*.txt")]
    return tuple(sorted(found, key=lambda article: article.title))


ARTICLES = _read()
CATEGORIES = sorted({name for article in ARTICLES for name in article.categories})
_TEXTS = {article.title: plain_text(article) for article in ARTICLES}
_BY_TITLE = {
    _key(title): article for article in ARTICLES for title in (article.title, *article.also)
}
