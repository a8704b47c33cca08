"""HTML as a tree in which strings are always text, and the blocks that an offline page is made of.

Everything from a rollout enters a page as a child or an attribute of an element; both are escaped
when the tree is written. Markup cannot be added as a string. Elements whose content a browser does
not treat as text cannot be made, and any URL other than a picture's own bytes is rejected. Drawings
are made of a few SVG shapes that take only numbers.

Children may be an iterator: they are then made while the page is written, never all at once.
"""

import math
import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator
from html import escape
from typing import NamedTuple, TypeAlias

import msgspec

from rollgym.viewer.view import FieldView, PictureData, PictureView, SectionView, Text

PICTURES = tuple(f"data:image/{kind};base64," for kind in ("png", "jpeg", "gif", "webp"))
_VOID = frozenset(("img", "meta"))
_NAMES = frozenset((
    "html", "head", "meta", "title", "body", "header", "main", "section", "article", "figure",
    "div", "p", "span", "h1", "h2", "h3", "dl", "dt", "dd", "details", "summary", "code", "img",
))  # fmt: skip
_SHAPES = frozenset(("svg", "rect", "circle", "line", "polygon", "text"))
_URLS = frozenset(("href", "src", "action", "formaction", "poster", "srcset", "background"))
_CLASS = re.compile(r"[a-z][a-z -]*")
_CHUNK = 65_536

Value: TypeAlias = str | int | None
Child: TypeAlias = "HtmlElement | str | None"


class HtmlElement(msgspec.Struct, frozen=True):
    """A node of the tree. Use the functions here to make one."""

    name: str
    attributes: dict[str, str]
    children: Iterable[Child]


class Fraction(NamedTuple):
    """A length as a fraction of the drawing."""

    fraction: float


def element(name: str, /, *children: Child, **attributes: Value) -> HtmlElement:
    """`element("p", "text", class_="x")`; an attribute that is None or False is left out.

    Raises ValueError for an element or attribute that is not allowed on a page.
    """
    return group(name, children, **attributes)


def group(name: str, children: Iterable[Child], /, **attributes: Value) -> HtmlElement:
    """An element with an iterable of children. Raises ValueError as `element` does."""
    if name not in _NAMES:
        raise ValueError(f"<{name}> is not allowed on a page")
    written = {
        key.rstrip("_").replace("_", "-"): "" if value is True else str(value)
        for key, value in attributes.items()
        if value is not None and value is not False
    }
    for key, text in written.items():
        if key.startswith("on") or key in {"style", "srcdoc"}:
            raise ValueError(f"{key}= would run code")
        if key in _URLS and not (key == "src" and text.startswith(PICTURES)):
            raise ValueError(f"{key}={text[:40]!r} leads out of the page")
    return HtmlElement(name, written, children)


def shape(
    name: str,
    /,
    *children: Child,
    class_: str = "",
    points: Iterable[tuple[float, float]] = (),
    **numbers: float | Fraction,
) -> HtmlElement:
    """A drawing (`svg`) or a shape of it. Raises ValueError for other names and for non-numbers."""
    if name not in _SHAPES:
        raise ValueError(f"<{name}> is not an allowed shape")
    if class_ and not _CLASS.fullmatch(class_):
        raise ValueError(f"{class_[:40]!r} is not a valid class")
    written = {key: _number(value) for key, value in numbers.items()}
    corners = [f"{_number(x)},{_number(y)}" for x, y in points]
    written |= {"points": " ".join(corners)} if corners else {}
    written |= {"class": class_} if class_ else {}
    return HtmlElement(name, written, children)


def stylesheet(css: str) -> HtmlElement:
    """The page's own style rules; never content of a rollout. Raises ValueError."""
    if "<" in css:
        raise ValueError("the style sheet contains <, which could end its element")
    return HtmlElement("style", {}, (_TrustedText(css),))


def document(root: HtmlElement) -> Iterator[bytes]:
    """The page in pieces, as they are made."""
    waiting, length = ["<!doctype html>\n"], 0
    for text in _written(root):
        waiting.append(text)
        length += len(text)
        if length >= _CHUNK:
            yield "".join(waiting).encode("utf-8", "replace")
            waiting, length = [], 0
    yield "".join(waiting).encode("utf-8", "replace")


class _TrustedText(str):
    """Text that is written without escaping."""

    __slots__ = ()


def _number(value: float | Fraction) -> str:
    number, unit = (value.fraction * 100, "%") if isinstance(value, Fraction) else (value, "")
    if isinstance(number, bool) or not isinstance(number, int | float) or not math.isfinite(number):
        raise ValueError(f"{number!r:.40} is not a number")
    return f"{number:.6g}{unit}"


def _written(node: Child) -> Iterator[str]:
    match node:
        case None:
            return
        case _TrustedText():
            yield node
        case str():
            yield escape(node)
        case HtmlElement():
            attributes = "".join(
                f' {key}="{escape(text)}"' for key, text in node.attributes.items()
            )
            yield f"<{node.name}{attributes}>"
            if node.name not in _VOID:
                for child in node.children:
                    yield from _written(child)
                yield f"</{node.name}>"


PICTURES_LIMIT = 64 << 20
"""Bytes of all pictures of a page together."""

PictureOf: TypeAlias = Callable[[PictureView], PictureData | None]


class PictureBudget:
    """Embeds the pictures of a page, up to `PICTURES_LIMIT` bytes in all."""

    def __init__(self, picture_of: PictureOf) -> None:
        self._picture_of = picture_of
        self._left = PICTURES_LIMIT

    def picture(self, image: PictureView, alt: str) -> HtmlElement:
        """The picture itself, or a note that says why it is missing."""
        if not image.path and not image.file:
            return note(f"Picture on another server, not loaded: {image.note}")
        picture = self._picture_of(image) if self._left > 0 else None
        if picture is None:
            return note(
                "Picture that cannot be read."
                if self._left > 0
                else f"Picture left out: the limit of this file is {PICTURES_LIMIT >> 20} MiB."
            )
        self._left -= len(picture.data)
        source = f"data:{picture.media_type};base64,{b64encode(picture.data).decode('ascii')}"
        return element("img", src=source, alt=alt, width=image.width, height=image.height)


def note(text: str) -> HtmlElement:
    return element("p", text, class_="note")


def text_block(text: Text, class_: str = "text") -> HtmlElement:
    """A text as it was written, with a note if it was cut."""
    shown = element("div", text.text, class_=class_)
    if text.size <= len(text.text):
        return shown
    cut = f"First {len(text.text):,} of {text.size:,} characters. The rest is in the original file."
    return element("div", shown, note(cut))


def folded(summary: str, *content: HtmlElement | None) -> HtmlElement:
    return element("details", element("summary", summary), *content)


def section(title: str, content: Iterable[HtmlElement | None]) -> HtmlElement:
    return group("section", (element("h2", title), *content))


def facts(pairs: Iterable[tuple[str, str]]) -> HtmlElement:
    """Names and short values, side by side; empty values are left out."""
    named = ((name, text) for name, text in pairs if text)
    rows = (element("div", element("dt", name), element("dd", text)) for name, text in named)
    return group("dl", rows, class_="facts")


def field_section(given: SectionView) -> HtmlElement:
    fields = field_list(given.fields)
    return folded(given.title, fields) if given.folded else section(given.title, [fields])


def field_list(fields: Iterable[FieldView]) -> HtmlElement:
    rows = (
        element(
            "div",
            element("dt", field.name),
            element("dd", text_block(field.value, "text code" if field.is_json else "text")),
        )
        for field in fields
    )
    return group("dl", rows, class_="fields")
