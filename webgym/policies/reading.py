"""The text of a page, read: its accessibility tree as nodes, and what of it is said aloud.

The text that a chat shows is the tree, one line for each node, indented by its depth. Here the
lines become nodes again. A text of another form is a page of plain lines.
"""

import re
from collections.abc import Iterator

import msgspec

_LINE = re.compile(
    r'(?P<indent> *)(?:\[\d+\] )?(?P<role>[A-Za-z]+)(?: "(?P<name>.*?)")?'
    r"(?P<details>(?: [a-z]+=(?:\"[^\"]*\"|[^\s\"]\S*)| \([a-z, ]+\))*+)"
)
DEEPEST = 100
"""What is nested deeper counts as beside each other: a page may be made to be deep."""
_VALUE = re.compile(r'value="([^"]*)"')
_SILENT = frozenset({"RootWebArea", "ListMarker", "Iframe"})


class Node(msgspec.Struct, frozen=True):
    """One line of the tree."""

    depth: int
    role: str
    name: str = ""
    value: str = ""


def read_nodes(text: str) -> Iterator[Node]:
    """The nodes of a page in their order; a line that is none is a text."""
    for line in text.splitlines():
        found = _LINE.fullmatch(line)
        if found is None:
            yield Node(0, "text", " ".join(line.split()))
            continue
        value = _VALUE.search(found["details"])
        depth = min(len(found["indent"]) // 2, DEEPEST)
        yield Node(depth, found["role"], found["name"] or "", value[1] if value else "")


def spoken(text: str) -> str:
    """What a page says, without what its parts are."""
    names = (node.name for node in read_nodes(text) if node.role not in _SILENT)
    return "\n".join(name for name in names if name)
