"""A page as passages: pieces of text that can answer a question by themselves.

A sentence is one, a row of a table with the names of its columns, an entry of a list, a card of a
product. What surrounds every page of a site (banner, navigation, foot) is left out.
"""

import re
from collections.abc import Iterator
from typing import Literal

import msgspec

from webgym.policies.reading import Node, read_nodes

NO_GROUP = -1
_SURROUNDINGS = frozenset({"navigation", "banner", "contentinfo", "search", "complementary"})
_INLINE = frozenset({"text", "link", "superscript", "subscript", "code", "time", "term"})
_ENTRIES = frozenset({"article", "listitem", "definition"})
_CONTROLS = frozenset(
    {"textbox", "searchbox", "combobox", "listbox", "radio", "checkbox", "switch", "button"}
    | {"spinbutton", "slider", "option", "menuitem", "tab", "DisclosureTriangle"}
)
_MUTE = frozenset({"ListMarker", "image", "option", "Legend"})
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z0-9“\"$])")
_BEFORE_POINT = re.compile(r"\s+(?=[.,;:!?)])")


class Cell(msgspec.Struct, frozen=True):
    """Of a row; `column` is empty where the table does not name it."""

    column: str
    text: str


class Passage(msgspec.Struct, frozen=True):
    """`heading` is the last one above it; passages of one `group` can be compared."""

    text: str
    heading: str
    kind: Literal["sentence", "row", "entry"] = "sentence"
    group: int = 0
    cells: tuple[Cell, ...] = ()


class _Branch:
    def __init__(self, node: Node) -> None:
        self.node = node
        self.children: list[_Branch] = []

    def names(self) -> Iterator[str]:
        """Of everything that is said in it."""
        if self.node.role not in _MUTE and self.node.name:
            yield self.node.name
        if self.node.role not in _CONTROLS:
            for child in self.children:
                yield from (name for name in child.names() if name != self.node.name)


def read_passages(text: str) -> list[Passage]:
    """All passages of a page, in their order."""
    reader = _Reader()
    reader.read(_tree(text).children)
    reader.flush()
    return reader.passages


class _Reader:
    def __init__(self) -> None:
        self.passages: list[Passage] = []
        self._heading = ""
        self._run: list[str] = []
        self._group = 0

    def read(self, branches: list[_Branch]) -> None:
        """Branches beside each other: rows and entries among them can be compared."""
        self._group += 1
        columns: list[str] = []
        for branch in branches:
            role, name = branch.node.role, branch.node.name
            if role in _SURROUNDINGS:
                continue
            if role not in _INLINE:
                self.flush()
            if role in _INLINE:
                self._run.append(name)
            elif role == "heading":
                self._heading = name
                self._say_heading()
            elif role == "row":
                columns = self._row(branch, columns)
            elif role in _ENTRIES:
                self._entry(" ".join(branch.names()))
            elif role in _CONTROLS:
                self._control(branch.node)
            else:
                if name and not branch.children:
                    self._run.append(name)
                self.read(branch.children)
                self.flush()

    def flush(self) -> None:
        """End a run of text: its sentences are passages."""
        text = _BEFORE_POINT.sub("", " ".join(self._run)).strip()
        self._run = []
        for sentence in _SENTENCE.split(text):
            if sentence:
                self.passages.append(Passage(sentence, self._heading, group=NO_GROUP))

    def _say_heading(self) -> None:
        """A heading says something too: that the page has such a part."""
        if self._heading:
            self.passages.append(Passage(self._heading, "", group=NO_GROUP))

    def _row(self, row: _Branch, columns: list[str]) -> list[str]:
        """Returns the names of the columns: a row of heads names them."""
        texts = [" ".join(dict.fromkeys(cell.names())) for cell in row.children]
        if row.children and all(cell.node.role == "columnheader" for cell in row.children):
            return texts
        if len(texts) == len(columns):
            cells = tuple(map(Cell, columns, texts))
        elif len(texts) == 2:
            cells = (Cell(texts[0], texts[1]),)
        else:
            cells = tuple(Cell("", text) for text in texts)
        said = "; ".join(f"{c.column}: {c.text}" if c.column else c.text for c in cells if c.text)
        if said:
            self.passages.append(Passage(said, self._heading, "row", self._group, cells))
        return columns

    def _entry(self, text: str) -> None:
        text = _BEFORE_POINT.sub("", text).strip()
        if text:
            self.passages.append(Passage(text, self._heading, "entry", self._group))

    def _control(self, node: Node) -> None:
        if node.name and node.value:
            said = f"{node.name}: {node.value}"
            self.passages.append(Passage(said, self._heading, group=NO_GROUP))


def _tree(text: str) -> _Branch:
    root = _Branch(Node(-1, ""))
    above = [root]
    for node in read_nodes(text):
        while above[-1].node.depth >= node.depth:
            above.pop()
        branch = _Branch(node)
        above[-1].children.append(branch)
        above.append(branch)
    return root
