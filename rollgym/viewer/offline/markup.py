"""HTML as a tree, in which text can only be text.

Whatever a rollout says enters a page as a child or an attribute of an element, and both are escaped
when the tree is written. There is no way to add markup as a string. Elements whose content is not
text to a browser cannot be made, and an address other than a picture's own bytes is refused.
Drawings are made of a few shapes of SVG that take numbers and nothing else.

Children may be an iterator: they are then made while the page is written, and never all at once.
"""

import math
import re
from collections.abc import Iterable, Iterator
from html import escape
from typing import NamedTuple, TypeAlias

import msgspec

PICTURES = tuple(f"data:image/{kind};base64," for kind in ("png", "jpeg", "gif", "webp"))
_VOID = frozenset(("img", "meta"))
_NAMES = frozenset(
    (
        "html",
        "head",
        "meta",
        "title",
        "body",
        "header",
        "main",
        "section",
        "article",
        "figure",
        "div",
        "p",
        "span",
        "h1",
        "h2",
        "h3",
        "dl",
        "dt",
        "dd",
        "details",
        "summary",
        "code",
        "img",
    )
)
_SHAPES = frozenset(("svg", "rect", "circle", "line", "polygon", "text"))
_URLS = frozenset(("href", "src", "action", "formaction", "poster", "srcset", "background"))
_CLASS = re.compile(r"[a-z][a-z -]*")
_CHUNK = 65_536

Value: TypeAlias = str | int | None
Child: TypeAlias = "Element | str | None"


class Element(msgspec.Struct, frozen=True):
    """A node of the tree. Made by the functions here."""

    name: str
    attributes: dict[str, str]
    children: Iterable[Child]


class Share(NamedTuple):
    """A length as a fraction of the drawing."""

    fraction: float


def element(name: str, /, *children: Child, **attributes: Value) -> Element:
    """`element("p", "text", class_="x")`; an attribute that is None or False is left out.

    Raises ValueError for what has no place on a page of ours.
    """
    return group(name, children, **attributes)


def group(name: str, children: Iterable[Child], /, **attributes: Value) -> Element:
    """An element with as many children as there are. Raises ValueError."""
    if name not in _NAMES:
        raise ValueError(f"<{name}> has no place on a page")
    written = {
        key.rstrip("_").replace("_", "-"): "" if value is True else str(value)
        for key, value in attributes.items()
        if value is not None and value is not False
    }
    for key, text in written.items():
        if key.startswith("on") or key in {"style", "srcdoc"}:
            raise ValueError(f"{key}= is code")
        if key in _URLS and not (key == "src" and text.startswith(PICTURES)):
            raise ValueError(f"{key}={text[:40]!r} leads elsewhere")
    return Element(name, written, children)


def shape(
    name: str,
    /,
    *children: Child,
    class_: str = "",
    points: Iterable[tuple[float, float]] = (),
    **numbers: float | Share,
) -> Element:
    """A drawing (`svg`) or a shape of one. Raises ValueError for another name, or for no number."""
    if name not in _SHAPES:
        raise ValueError(f"<{name}> is not a shape that is drawn")
    if class_ and not _CLASS.fullmatch(class_):
        raise ValueError(f"{class_[:40]!r} is not a class")
    written = {key: _number(value) for key, value in numbers.items()}
    corners = [f"{_number(x)},{_number(y)}" for x, y in points]
    written |= {"points": " ".join(corners)} if corners else {}
    written |= {"class": class_} if class_ else {}
    return Element(name, written, children)


def stylesheet(css: str) -> Element:
    """Rules of our own; never anything that a rollout says. Raises ValueError."""
    if "<" in css:
        raise ValueError("a style sheet that could end before its end")
    return Element("style", {}, (_Ours(css),))


def document(root: Element) -> Iterator[bytes]:
    """The page, in pieces as they are made."""
    waiting, length = ["<!doctype html>\n"], 0
    for text in _written(root):
        waiting.append(text)
        length += len(text)
        if length >= _CHUNK:
            yield "".join(waiting).encode("utf-8", "replace")
            waiting, length = [], 0
    yield "".join(waiting).encode("utf-8", "replace")


class _Ours(str):
    """What is written as it is."""

    __slots__ = ()


def _number(value: float | Share) -> str:
    number, unit = (value.fraction * 100, "%") if isinstance(value, Share) else (value, "")
    if isinstance(number, bool) or not isinstance(number, int | float) or not math.isfinite(number):
        raise ValueError(f"{number!r:.40} is not a number")
    return f"{number:.6g}{unit}"


def _written(node: Child) -> Iterator[str]:
    match node:
        case None:
            return
        case _Ours():
            yield node
        case str():
            yield escape(node)
        case Element():
            attributes = "".join(
                f' {key}="{escape(text)}"' for key, text in node.attributes.items()
            )
            yield f"<{node.name}{attributes}>"
            if node.name not in _VOID:
                for child in node.children:
                    yield from _written(child)
                yield f"</{node.name}>"
