"""An article as it is written: a head of `name: value` lines, and a text in a few plain forms.

Blocks of the text are separated by empty lines. A block is a heading (`== like this ==`), a list
(each line begins with `- `), a table (each line begins with `| `, the first is its head), a note
(`[1] its text`) or else a paragraph. Inside, `[[Title]]` and `[[Title|shown]]` are links, `[^1]`
refers to a note, `**bold**` and `//italic//` are what they say.
"""

import re
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


class Listing(msgspec.Struct, frozen=True):
    items: tuple[str, ...]


class Table(msgspec.Struct, frozen=True):
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


Block: TypeAlias = Heading | Paragraph | Listing | Table


class Article(msgspec.Struct, frozen=True):
    """One article. `also` are other titles that lead to it."""

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
    """Read an article. Raises ValueError for what is not written as it should be."""
    head, _, text = source.partition("\n---\n")
    given: dict[str, list[str]] = {}
    for line in head.splitlines():
        name, separator, value = line.partition(": ")
        if not separator:
            raise ValueError(f"{line!r} is no line of a head")
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
    """The text without its marks."""
    text = re.sub(r"\[\[(?:[^\]|]*\|)?([^\]|]*)\]\]", r"\1", text)
    return re.sub(r"\[\^\d+\]|\*\*|//", "", text)


def plain_text(article: Article) -> str:
    """All that the article says, as words."""
    parts = [article.title]
    for name, value in article.facts:
        parts.append(f"{name}: {value}.")
    for block in article.blocks:
        match block:
            case Heading(text=text) | Paragraph(text=text):
                parts.append(text)
            case Listing(items=items):
                parts.extend(items)
            case Table(head=head, rows=rows):
                parts.extend(" ".join(row) for row in (head, *rows))
    return plain("\n".join(parts))


def _block(chunk: str) -> Block:
    heading = _HEADING.fullmatch(chunk)
    if heading:
        return Heading(len(heading[1]), heading[2])
    lines = chunk.splitlines()
    if chunk.startswith("- "):
        return Listing(tuple(line.removeprefix("- ") for line in lines))
    if chunk.startswith("|"):
        rows = [_cells(line) for line in lines]
        if any(len(row) != len(rows[0]) for row in rows):
            raise ValueError(f"the rows of the table {lines[0]!r} differ in length")
        return Table(rows[0], tuple(rows[1:]))
    return Paragraph(" ".join(lines))


def _cells(line: str) -> tuple[str, ...]:
    """The cells of a row; a bar inside a link is none between cells."""
    inner = line.strip().removeprefix("|").removesuffix("|")
    return tuple(cell.strip() for cell in re.split(r"\|(?![^\[]*\]\])", inner))


def _fact(text: str) -> tuple[str, str]:
    name, _, value = text.partition(" = ")
    return name, value


def _listed(given: dict[str, list[str]], name: str) -> tuple[str, ...]:
    return tuple(part.strip() for text in given.get(name, []) for part in text.split(","))
