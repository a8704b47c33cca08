"""What is around every page of the encyclopedia."""

from pathlib import Path

from webgym.sites.encyclopedia.library import CATEGORIES
from webgym.sites.markup import Content, Markup, Template

TEMPLATES = Path(__file__).with_name("templates")
_FRAME = Template.of(TEMPLATES / "frame.html")
_CATEGORY = Template('<a href="/encyclopedia/category/{name}">{name}</a>')


def frame(title: str, body: Content, text: str = "") -> Markup:
    """The whole page; `text` stands in the search box."""
    return _FRAME(title=title, body=body, text=text, categories=category_links(CATEGORIES))


def category_links(names: list[str]) -> list[Markup]:
    return [_CATEGORY(name=name) for name in names]
