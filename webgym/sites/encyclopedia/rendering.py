"""From an article to HTML."""

import re
from collections.abc import Iterable, Iterator
from urllib.parse import quote

from webgym.sites.encyclopedia.article import (
    Block,
    Heading,
    Listing,
    Paragraph,
    Table,
)
from webgym.sites.encyclopedia.library import find
from webgym.sites.markup import Markup, Template, rendered

_INLINE = re.compile(
    r"\[\[(?P<target>[^\]|]+)(?:\|(?P<shown>[^\]]+))?\]\]"
    r"|\[\^(?P<note>\d+)\]|\*\*(?P<bold>.+?)\*\*|//(?P<italic>.+?)//"
)
_LINK = Template('<a href="{url}">{text}</a>')
_RED_LINK = Template('<a class="missing" href="{url}">{text}</a>')
_NOTE = Template(
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
    """A line of an article with its links and marks."""
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
            yield _NOTE(number=found["note"])
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
        case Listing():
            return _UL(items=[_LI(text=inline(item)) for item in block.items])
        case Table():
            return _TABLE(
                head=[_TH(text=inline(cell)) for cell in block.head],
                rows=[_TR(cells=[_TD(text=inline(cell)) for cell in row]) for row in block.rows],
            )
