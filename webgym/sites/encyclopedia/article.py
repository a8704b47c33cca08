"""The articles, how they are written, and the search in them.

An article is a head of `name: value` lines and a text. Empty lines separate the blocks of the text.
A block is a heading (`== like this ==`), a list (each line starts with `- `), a table (each line
starts with `| `, the first is its head), a note (`[1] its text`) or else a paragraph. Inside a
block, `[[Title]]` and `[[Title|shown]]` are links, `[^1]` refers to a note, and `**bold**` and
`//italic//` are styles.
"""

import re
from pathlib import Path
from typing import TypeAlias

import msgspec

_HEADING = re.compile(r"(={2,3}) (.+) =+")
_NOTE = re.compile(r"\[(\d+)\] (.+)", re.DOTALL)


class Heading(msgspec.Struct, frozen=True):
    level: int
    text: str

    @property
    def anchor(self) -> str:
        return self.text.replace(" ", "_")


class Paragraph(msgspec.Struct, frozen=True):
    text: str


class BulletList(msgspec.Struct, frozen=True):
    items: tuple[str, ...]


class ArticleTable(msgspec.Struct, frozen=True):
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


Block: TypeAlias = Heading | Paragraph | BulletList | ArticleTable


class Article(msgspec.Struct, frozen=True):
    """One article. `also` are other titles that redirect to it."""

    title: str
    blocks: tuple[Block, ...]
    also: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    drawing: str = ""
    is_disambiguation: bool = False

    @property
    def headings(self) -> list[Heading]:
        return [block for block in self.blocks if isinstance(block, Heading)]

    @property
    def lead(self) -> str:
        return next(block.text for block in self.blocks if isinstance(block, Paragraph))


def parse(source: str) -> Article:
    """Read an article. Raises ValueError if it breaks the format."""
    head, _, text = source.partition("\n---\n")
    given: dict[str, list[str]] = {}
    for line in head.splitlines():
        name, separator, value = line.partition(": ")
        if not separator:
            raise ValueError(f"{line!r} is not a `name: value` line of the head")
        given.setdefault(name, []).append(value)
    chunks = [chunk.strip() for chunk in re.split(r"\n\s*\n", text) if chunk.strip()]
    return Article(
        title=given["title"][0],
        blocks=tuple(_block(chunk) for chunk in chunks if not _NOTE.match(chunk)),
        also=_listed(given, "also"),
        categories=_listed(given, "categories"),
        facts=tuple(_fact(fact) for fact in given.get("fact", [])),
        notes=tuple(note[2] for chunk in chunks if (note := _NOTE.match(chunk))),
        drawing=given.get("drawing", [""])[0],
        is_disambiguation=given.get("kind") == ["disambiguation"],
    )


def plain(text: str) -> str:
    """The text without links and styles."""
    text = re.sub(r"\[\[(?:[^\]|]*\|)?([^\]|]*)\]\]", r"\1", text)
    return re.sub(r"\[\^\d+\]|\*\*|//", "", text)


def plain_text(article: Article) -> str:
    """All text of the article, without links and styles."""
    parts = [article.title]
    for name, value in article.facts:
        parts.append(f"{name}: {value}.")
    for block in article.blocks:
        match block:
            case Heading(text=text) | Paragraph(text=text):
                parts.append(text)
            case BulletList(items=items):
                parts.extend(items)
            case ArticleTable(head=head, rows=rows):
                parts.extend(" ".join(row) for row in (head, *rows))
    return plain("\n".join(parts))


def _block(chunk: str) -> Block:
    heading = _HEADING.fullmatch(chunk)
    if heading:
        return Heading(len(heading[1]), heading[2])
    lines = chunk.splitlines()
    if chunk.startswith("- "):
        return BulletList(tuple(line.removeprefix("- ") for line in lines))
    if chunk.startswith("|"):
        rows = [_cells(line) for line in lines]
        if any(len(row) != len(rows[0]) for row in rows):
            raise ValueError(f"the rows of the table {lines[0]!r} differ in length")
        return ArticleTable(rows[0], tuple(rows[1:]))
    return Paragraph(" ".join(lines))


def _cells(line: str) -> tuple[str, ...]:
    """The cells of a row; a bar inside a link does not separate cells."""
    inner = line.strip().removeprefix("|").removesuffix("|")
    return tuple(cell.strip() for cell in re.split(r"\|(?![^\[]*\]\])", inner))


def _fact(text: str) -> tuple[str, str]:
    name, _, value = text.partition(" = ")
    return name, value


def _listed(given: dict[str, list[str]], name: str) -> tuple[str, ...]:
    return tuple(part.strip() for text in given.get(name, []) for part in text.split(","))


SNIPPET = 180
RESULTS = 20


class ArticleMatch(msgspec.Struct, frozen=True):
    """An article that matches a search, with the passage that matches best."""

    article: Article
    snippet: str


def find(title: str) -> Article | None:
    """The article with this title, or with this other title; case does not matter."""
    return _BY_TITLE.get(_key(title))


def search(text: str) -> list[ArticleMatch]:
    """Articles that have all the words; those with the words in the title come first."""
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
    return [ArticleMatch(article, _snippet(article, words)) for _, article in scored[:RESULTS]]


def _snippet(article: Article, words: list[str]) -> str:
    """The part of the text that has the most of the words."""
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
