"""HTML from templates that escape everything that is put into them.

A template is HTML with `{name}` for each value. Values are escaped unless they are `Markup`, which
only templates make. None and False give nothing, and a sequence gives its parts one after the
other. Scripts and styles are separate files, so a template has no other braces.
"""

from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import TypeAlias


class Markup(str):
    """Text that is HTML."""

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
    """An attribute without a value, such as `checked`, if it is present."""
    return Markup(f" {name}") if present else NOTHING


_OPTION = Template('<option value="{value}"{selected}>{text}</option>')


def options(choices: Iterable[tuple[str, str]], chosen: str) -> Markup:
    """The options of a select element, from pairs of value and text."""
    return rendered(
        _OPTION(value=value, text=text, selected=flag("selected", value == chosen))
        for value, text in choices
    )
