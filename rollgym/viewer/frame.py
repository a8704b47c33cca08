"""What every page has: the head, the way to the other pages, and how numbers and fields look."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

import msgspec

from rollgym.records.failure import shorten
from rollgym.viewer.json_text import json_text
from rollgym.viewer.markup import Element, document, element, group

TEXT_LIMIT = 100_000
REFRESH_SECONDS = 1
STYLE_URL = "/style.css"
NOTHING = "-"
"""Stands for a number that is not known."""


class Place(msgspec.Struct, frozen=True):
    """Where a page stands: in which of the opened files, and how far that one has been read."""

    section: str
    sections: tuple[str, ...]
    file: str
    read: float = 1.0

    def url(self, line: int | None = None, query: Mapping[str, str] | None = None) -> str:
        """Of a rollout, or of the list."""
        path = f"/{self.section}" if line is None else f"/{self.section}/{line}"
        return f"{path}?{urlencode(query)}" if query else path


def page(place: Place, title: str, *body: Element | None) -> bytes:
    """A whole page. One of a file that is still being read for the first time loads itself anew."""
    reading = place.read < 1.0
    return document(
        element(
            "html",
            element(
                "head",
                element("meta", charset="utf-8"),
                element("meta", name="viewport", content="width=device-width, initial-scale=1"),
                element("meta", name="color-scheme", content="light dark"),
                element("meta", http_equiv="refresh", content=REFRESH_SECONDS) if reading else None,
                element("title", f"{title} - {place.file}"),
                element("link", rel="stylesheet", href=STYLE_URL),
            ),
            element(
                "body",
                element("header", element("strong", place.file), _sections(place)),
                group("main", (element("h1", title), _reading(place.read), *body)),
            ),
            lang="en",
        )
    )


def number(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.4g}"


def verdict(success: bool | None) -> Element:
    """Success in words, so that nothing hangs on the colour."""
    if success is None:
        return element("span", NOTHING)
    return element("span", "success" if success else "no success", class_=f"is-{success}".lower())


def text_block(text: str) -> Element:
    return element("div", shorten(text, TEXT_LIMIT), class_="text")


def field_list(fields: Mapping[str, Any]) -> Element | None:
    """Names and values; texts as they are, everything else as JSON."""
    rows = [
        element("div", element("dt", name), element("dd", text_block(_shown(value))))
        for name, value in fields.items()
    ]
    return group("dl", rows, class_="fields") if rows else None


def folded(summary: str, content: Element | None) -> Element | None:
    """Content to be opened by a click; nothing where there is none."""
    if content is None:
        return None
    return element("details", element("summary", summary), content)


def _shown(value: object) -> str:
    return value if isinstance(value, str) else json_text(value)


def _sections(place: Place) -> Element:
    links = (
        element(
            "a",
            section.capitalize(),
            href=f"/{section}",
            aria_current="page" if section == place.section else None,
        )
        for section in place.sections
    )
    return group("nav", links)


def _reading(read: float) -> Element | None:
    if read >= 1.0:
        return None
    return element("p", f"The file is still being read: {read:.0%} so far.", class_="note")
