"""HTML from templates, in which text can only be text.

A template is HTML with `{name}` where something goes in. What goes in is escaped unless it is
`Markup`, which only templates make. None and False are nothing, and a sequence is its parts one
after the other. Scripts and styles are files of their own, so a template has no other braces.
"""

from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import TypeAlias


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


Content: TypeAlias = "str | int | float | Iterable[Content] | None"
NOTHING = Markup()


class Template:
    """`Template("<b>{name}</b>")(name=name)` is Markup."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    @classmethod
    def of(cls, path: Path) -> "Template":
        return cls(path.read_text(encoding="utf-8"))

    def __call__(self, **values: Content) -> Markup:
        return Markup(self._text.format(**{name: rendered(each) for name, each in values.items()}))


def rendered(content: Content) -> Markup:
    """The content as HTML."""
    if isinstance(content, Markup):
        return content
    if isinstance(content, str):
        return Markup(escape(content))
    if content is None or content is False:
        return NOTHING
    if isinstance(content, int | float):
        return Markup(content)
    return Markup("".join(map(rendered, content)))


def flag(name: str, present: object) -> Markup:
    """An attribute without a value, such as `checked`, where it applies."""
    return Markup(f" {name}") if present else NOTHING


_OPTION = Template('<option value="{value}"{selected}>{text}</option>')


def options(choices: Iterable[tuple[str, str]], chosen: str) -> Markup:
    """The choices of a select, as pairs of value and text."""
    return rendered(
        _OPTION(value=value, text=text, selected=flag("selected", value == chosen))
        for value, text in choices
    )
