"""HTML as a tree, in which text can only be text.

Whatever a rollout says enters a page as a child or an attribute of an element, and both are escaped
when the tree is written. There is no way to add markup as a string. Elements whose content is not
text to a browser cannot be made, and a URL that could lead elsewhere or run is refused.
"""

from collections.abc import Iterable, Iterator
from html import escape
from typing import TypeAlias

import msgspec

_VOID = frozenset(("img", "input", "link", "meta"))
_NOT_TEXT = frozenset(("script", "style", "iframe", "object", "embed", "svg", "math", "template"))
_URLS = frozenset(("href", "src", "action"))
PICTURES = tuple(f"data:image/{kind};base64," for kind in ("png", "jpeg", "gif", "webp"))

Value: TypeAlias = str | int | None
Child: TypeAlias = "Element | str | None"


class Element(msgspec.Struct, frozen=True):
    """A node of the tree. Made by `element`."""

    name: str
    attributes: dict[str, str]
    children: tuple[Child, ...]


def element(name: str, /, *children: Child, **attributes: Value) -> Element:
    """`element("a", "text", href="/", class_="x")`; an attribute that is None or False is left out.

    Raises ValueError for what has no place on a page of ours.
    """
    if name in _NOT_TEXT:
        raise ValueError(f"<{name}> holds more than text")
    written = {
        key.rstrip("_").replace("_", "-"): "" if value is True else str(value)
        for key, value in attributes.items()
        if value is not None and value is not False
    }
    for key, text in written.items():
        if key.startswith("on") or key == "style":
            raise ValueError(f"{key}= is code")
        if key in _URLS and not _is_ours(text):
            raise ValueError(f"{key}={text[:40]!r} leads elsewhere")
    return Element(name, written, children)


def group(name: str, children: Iterable[Child], /, **attributes: Value) -> Element:
    """An element with as many children as there are."""
    return element(name, *children, **attributes)


def document(root: Element) -> bytes:
    """The page as it is sent."""
    return ("<!doctype html>\n" + "".join(_written(root))).encode("utf-8", "replace")


def _is_ours(url: str) -> bool:
    return url.startswith(PICTURES) or (url.startswith("/") and url[1:2] not in ("/", "\\"))


def _written(node: Child) -> Iterator[str]:
    if node is None:
        return
    if isinstance(node, str):
        yield escape(node)
        return
    attributes = "".join(f' {key}="{escape(text)}"' for key, text in node.attributes.items())
    yield f"<{node.name}{attributes}>"
    if node.name not in _VOID:
        for child in node.children:
            yield from _written(child)
        yield f"</{node.name}>"
