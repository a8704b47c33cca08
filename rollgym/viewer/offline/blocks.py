"""The pieces that pages are made of: texts, fields, pictures, and what may be folded."""

from base64 import b64encode
from collections.abc import Callable, Iterable
from typing import TypeAlias

from rollgym.viewer.offline.markup import Element, element, group
from rollgym.viewer.view import Field, Image, Picture, Section, Text

PICTURES_LIMIT = 64 << 20
"""Bytes of all pictures of a page together."""

PictureOf: TypeAlias = Callable[[Image], Picture | None]


class Album:
    """Gives the pictures of a page, until they are too many for one file."""

    def __init__(self, picture_of: PictureOf) -> None:
        self._picture_of = picture_of
        self._left = PICTURES_LIMIT

    def picture(self, image: Image, alt: str) -> Element:
        """The picture itself, or a line that says why it is not there."""
        if not image.path and not image.file:
            return note(f"A picture elsewhere, which is not loaded: {image.note}")
        picture = self._picture_of(image) if self._left > 0 else None
        if picture is None:
            return note(
                "A picture that cannot be read."
                if self._left > 0
                else f"A picture: this file holds no more than {PICTURES_LIMIT >> 20} MiB of them."
            )
        self._left -= len(picture.data)
        source = f"data:{picture.media_type};base64,{b64encode(picture.data).decode('ascii')}"
        return element("img", src=source, alt=alt, width=image.width, height=image.height)


def note(text: str) -> Element:
    return element("p", text, class_="note")


def text_block(text: Text, class_: str = "text") -> Element:
    """A text as it was written; one that was cut says so."""
    shown = element("div", text.text, class_=class_)
    if text.size <= len(text.text):
        return shown
    cut = f"The first {len(text.text):,} of {text.size:,} characters; the rest is in the file."
    return element("div", shown, note(cut))


def folded(summary: str, *content: Element | None) -> Element:
    return element("details", element("summary", summary), *content)


def section(title: str, content: Iterable[Element | None]) -> Element:
    return group("section", (element("h2", title), *content))


def facts(pairs: Iterable[tuple[str, str]]) -> Element:
    """Names with short values, side by side."""
    rows = (element("div", element("dt", name), element("dd", text)) for name, text in pairs)
    return group("dl", rows, class_="facts")


def field_section(given: Section) -> Element:
    fields = field_list(given.fields)
    return folded(given.title, fields) if given.folded else section(given.title, [fields])


def field_list(fields: Iterable[Field]) -> Element:
    rows = (
        element(
            "div",
            element("dt", field.name),
            element("dd", text_block(field.value, "text code" if field.is_json else "text")),
        )
        for field in fields
    )
    return group("dl", rows, class_="fields")
