"""A page whose elements have labels, as the compact format shows it.

Each element stands there once, with a label that no other element has: its name, or its role, and a
number if several would have the same. The text of the page comes first, without the texts of
elements and without the task.
"""

import re
from collections.abc import Iterator

import msgspec

from rollgym.records.failure import cut_text
from webgym.browser.contract.answers import Element
from webgym.context.page_text import escape_tags, quote_json
from webgym.context.page_view import AgentObservation
from webgym.context.parsers.loose_json import ReplyError, Tolerances

LABEL_CHARACTERS = 80
TEXT_CHARACTERS = 200
OPTIONS_SHOWN = 20
LABELS_IN_FEEDBACK = 20


class LabelledPage:
    """A page whose elements have labels: what is shown of it, and what replies can name."""

    def __init__(self, current: AgentObservation) -> None:
        self.elements: dict[str, Element] = {}
        for element in current.elements:
            self.elements[self._free_label(element)] = element
        self._tree = current.tree or ""

    def _free_label(self, element: Element) -> str:
        text = "" if element.text == element.value else element.text
        own = element.name or text or element.placeholder or ""
        label = cut_text(" ".join(own.split()), LABEL_CHARACTERS) or _role(element)
        number, free = 1, label
        while free in self.elements:
            number += 1
            free = f"{label} {number}"
        return free

    def lines(self, task: str, characters: int) -> Iterator[str]:
        """The text, then the elements, in about this many characters."""
        text = cut_text(" / ".join(self._texts(task)), characters // 3)
        if text:
            yield f"Text: {escape_tags(text)}"
        room = characters * 2 // 3
        for label, element in self.elements.items():
            line = _element_line(label, element)
            room -= len(line) + 1
            if room < 0:
                break
            yield line

    def _texts(self, task: str) -> Iterator[str]:
        """The texts of the tree that neither elements nor the task have."""
        said = {" ".join(task.split())}
        for element in self.elements.values():
            said |= {element.name, element.text, element.value or ""}
        for line in _TREE_TEXT.finditer(self._tree):
            text = msgspec.json.decode(line[1], type=str)
            if text not in said:
                said.add(text)
                yield text

    def find(self, label: str, tolerances: Tolerances) -> Element:
        """The element with this label. Raises ReplyError, which names the labels there are."""
        if label in self.elements:
            return self.elements[label]
        plain = " ".join(label.split()).casefold()
        near = [element for each, element in self.elements.items() if each.casefold() == plain]
        if len(near) == 1:
            tolerances.note("label_case")
            return near[0]
        raise ReplyError(f"the page has no {quote_json(label[:LABEL_CHARACTERS])}; {self._has()}")

    def _has(self) -> str:
        labels = list(self.elements)[:LABELS_IN_FEEDBACK]
        more = len(self.elements) - len(labels)
        listed = ", ".join(map(quote_json, labels)) or "no elements"
        return f"it has {listed}{f' and {more} more' if more else ''}"


_TREE_TEXT = re.compile(
    r'^ *+(?:text|heading|cell|gridcell|paragraph) ("(?:[^"\\\n]|\\.)*+")', re.MULTILINE
)
_ROLES = {"generic": "item", "combobox": "list", "listbox": "list", "searchbox": "textbox"}


def _role(element: Element) -> str:
    role = element.role or element.tag
    return _ROLES.get(role, role)


def _element_line(label: str, element: Element) -> str:
    line = f"{_role(element)} {quote_json(label)}"
    if element.value:
        line += f" = {quote_json(cut_text(element.value, TEXT_CHARACTERS))}"
    if element.options:
        options = [quote_json(option.text or option.value) for option in element.options]
        more = ["…"] * (len(options) > OPTIONS_SHOWN)
        line += f" of {', '.join(options[:OPTIONS_SHOWN] + more)}"
    states = [
        *(["checked"] if element.checked else []),
        *(["disabled"] if element.disabled else []),
    ]
    return f"{line} ({', '.join(states)})" if states else line
