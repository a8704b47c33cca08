"""The answers of the page script, and the errors for what cannot be done.

The script answers with short reasons ("gone", "covered"). Here they become the typed errors of the
contract, with a message that tells an agent what to do next.
"""

from typing import Literal

import msgspec

from webgym.browser.contract.answers import Box, Element
from webgym.browser.contract.errors import CommandError, UnknownElementError

FieldKind = Literal[
    "text", "rich", "picker", "toggle", "file", "dropdown", "listbox", "option", "button", "keys",
    "other",
]  # fmt: skip
"""How a field is filled: `text` and `rich` by typing, a `picker` by setting its value. An element
of the kind `keys` handles keys by itself, and nothing about its content is known."""


Quietness = Literal["quiet", "busy", "endless"]
"""Of a page: it is quiet, it was still busy at the limit, or what goes on cannot be awaited."""


class StepStart(msgspec.Struct, frozen=True):
    """When a step started: by the clock of the machine, and how many seconds ago.

    The age is measured before a page is asked, so it is too small by the time that this takes.
    The clock is exact, but may be set to another time while a page is open.
    """

    clock: float
    age: float


class DocumentGoneError(Exception):
    """The page navigated to another document, or its tab was closed."""


class PageScriptError(Exception):
    """Our script failed inside the page."""


class Area(msgspec.Struct, frozen=True):
    """A part of a viewport."""

    left: float
    top: float
    right: float
    bottom: float


class FrameSpot(msgspec.Struct, frozen=True):
    """The target of a function is in this frame of another origin, at this point of it."""

    frame: int
    x: float | None = None
    y: float | None = None


class FramePart(msgspec.Struct, frozen=True, rename="camel"):
    """A frame of another origin: where it is in the page, and its visible part."""

    frame: int
    area: Area
    x: float = 0
    y: float = 0
    scale_x: float = 1
    scale_y: float = 1

    def place(self, element: Element, number: int) -> Element:
        """An element of the frame as an element of the page."""
        box = Box(
            round(self.x + element.box.x * self.scale_x, 1),
            round(self.y + element.box.y * self.scale_y, 1),
            round(element.box.width * self.scale_x, 1),
            round(element.box.height * self.scale_y, 1),
        )
        return msgspec.structs.replace(element, id=number, box=box)


class ElementFacts(msgspec.Struct, frozen=True):
    """Facts about an element that decide whether and how it is filled."""

    tag: str = ""
    kind: FieldKind = "other"
    disabled: bool = False
    readonly: bool = False

    @property
    def is_select(self) -> bool:
        return self.kind in {"dropdown", "listbox"}


class LocatedElement(msgspec.Struct, frozen=True):
    """A point of the viewport where a click hits an element, or the reason why there is none."""

    x: float = 0
    y: float = 0
    facts: ElementFacts = ElementFacts()
    missing: Literal["gone", "hidden", "covered", "unlisted"] | None = None
    by: str = ""

    def check(self, number: int) -> None:
        """Raises UnknownElementError if there is no point."""
        reasons = {
            "hidden": "is hidden now: use an id from the newest list",
            "covered": f"is covered by {self.by}: close or move that first",
            "unlisted": "is an option of a closed list: choose it with select_option",
        }
        if self.missing == "gone":
            raise gone(number)
        if self.missing is not None:
            raise UnknownElementError(f"element {number} {reasons[self.missing]}")


class OptionSelection(msgspec.Struct, frozen=True):
    """The option that is chosen now. `changed` is False if it was chosen before."""

    label: str = ""
    value: str = ""
    changed: bool = False
    problem: Literal["gone", "kind", "unknown", "disabled list", "disabled option"] | None = None
    tag: str = ""
    labels: tuple[str, ...] = ()
    total: int = 0

    def check(self, target: int | tuple[float, float], wanted: str | None) -> None:
        """Raises CommandError if no option was chosen."""
        place = f"{target}" if isinstance(target, int) else f"at {target[0]:g}, {target[1]:g}"
        match self.problem:
            case "gone":
                if isinstance(target, int):
                    raise gone(target)
                raise UnknownElementError(f"there is nothing {place}")
            case "kind":
                raise UnknownElementError(
                    f"the element {place} is neither a list nor an option, but <{self.tag}>"
                )
            case "unknown":
                why = "give an option" if wanted is None else f"unknown option {wanted[:60]!r}"
                raise CommandError(f"the list {place}: {why}; it has {self._listed()}")
            case "disabled list":
                raise CommandError(f"the list {place} is disabled")
            case "disabled option":
                raise CommandError(f"option {self.label!r} is disabled")

    def _listed(self) -> str:
        more = self.total - len(self.labels)
        return (", ".join(self.labels) or "none") + (f" and {more} more" if more else "")


class CopiedText(msgspec.Struct, frozen=True):
    """The text of a clipboard event. `handled`: the page has done everything itself."""

    handled: bool
    text: str = ""


class SliderState(msgspec.Struct, frozen=True):
    """The value of a slider, if it says so, and its bounds."""

    now: float | None
    low: float
    high: float


class SetValueResult(msgspec.Struct, frozen=True):
    """The result of setting the value of a date, time, colour or range field."""

    value: str = ""
    problem: Literal["gone", "kind", "disabled", "form"] | None = None
    kind: str = ""
    type: str = ""
    form: str = ""

    def accepted(self, wanted: str) -> str:
        reasons = {
            "kind": f"this field has no picker, its kind is {self.kind}",
            "disabled": "the field is disabled or read-only",
            "form": f"a {self.type} field takes {self.form}, not {wanted[:60]!r}",
        }
        if self.problem is None:
            return self.value
        if self.problem == "gone":
            raise UnknownElementError("the field no longer exists, because the page has changed")
        raise CommandError(reasons[self.problem])


def gone(number: int) -> UnknownElementError:
    return UnknownElementError(
        f"element {number} is not on the page now: use an id from the newest list"
    )


class AxValue(msgspec.Struct, frozen=True):
    value: str | bool | int | float | dict[str, object] | list[object] | None = None

    @property
    def text(self) -> str:
        match self.value:
            case None | dict() | list():
                return ""
            case bool():
                return "true" if self.value else "false"
            case _:
                return " ".join(str(self.value).split())


class AxProperty(msgspec.Struct, frozen=True):
    name: str
    value: AxValue


class AxNode(msgspec.Struct, frozen=True):
    """A node of the accessibility tree. Fields that are not used here are not decoded."""

    node_id: str = msgspec.field(name="nodeId")
    ignored: bool = False
    role: AxValue = AxValue()
    name: AxValue = AxValue()
    value: AxValue = AxValue()
    properties: tuple[AxProperty, ...] = ()
    parent_id: str | None = msgspec.field(name="parentId", default=None)
    child_ids: tuple[str, ...] = msgspec.field(name="childIds", default=())
    backend_id: int | None = msgspec.field(name="backendDOMNodeId", default=None)


class Outline(msgspec.Struct, frozen=True):
    """A tree from our script. `whole` is False if the page has more nodes than its limit."""

    nodes: tuple[AxNode, ...]
    whole: bool
