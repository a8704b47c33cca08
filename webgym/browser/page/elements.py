"""The answers of the page script, and the errors for what cannot be done.

The script answers with short reasons ("gone", "covered"). Here they become the typed errors of the
contract, with a message that tells an agent what to do next.
"""

from typing import Literal

import msgspec

from webgym.browser.contract.errors import CommandError, UnknownElementError

FieldKind = Literal[
    "text", "rich", "picker", "toggle", "file", "dropdown", "listbox", "option", "button", "other"
]
"""How a field is filled: `text` and `rich` by typing, a `picker` by setting its value."""


class ElementFacts(msgspec.Struct, frozen=True):
    """Facts about an element. `type` is that of an input; `focused`: typed text goes there."""

    tag: str
    kind: FieldKind = "other"
    type: str | None = None
    disabled: bool = False
    readonly: bool = False
    focused: bool = False

    @property
    def editable(self) -> bool:
        """Whether typing into it changes it."""
        return self.kind in {"text", "rich"} and not self.disabled and not self.readonly

    @property
    def is_select(self) -> bool:
        return self.kind in {"dropdown", "listbox"}


class ClickPoint(msgspec.Struct, frozen=True):
    """A point of the viewport where a click hits an element.

    `scrolled` means that the page was just scrolled, and its scripts may still react to that.
    """

    x: float
    y: float
    facts: ElementFacts
    scrolled: bool = False


class ElementAtPoint(msgspec.Struct, frozen=True):
    """The element at a point or with the focus, if there is one."""

    facts: ElementFacts | None = None
    prepared: bool = False


class ChosenOption(msgspec.Struct, frozen=True):
    """The option that is chosen now. `changed` is False if it was chosen before."""

    label: str
    value: str
    changed: bool


class FieldSelection(msgspec.Struct, frozen=True):
    """Whether the content of the focused field is selected, and whether there is any."""

    selected: bool
    empty: bool


class QuietResult(msgspec.Struct, frozen=True):
    """The result of waiting until the page stops changing."""

    quiet: bool
    mutations: int


class LocatedElement(msgspec.Struct, frozen=True):
    """The position of an element: a point, or the reason why there is none."""

    x: float = 0
    y: float = 0
    scrolled: bool = False
    facts: ElementFacts | None = None
    missing: Literal["gone", "hidden", "covered", "unlisted"] | None = None
    by: str = ""

    def click_point(self, number: int) -> ClickPoint:
        if self.missing is None and self.facts is not None:
            return ClickPoint(self.x, self.y, self.facts, self.scrolled)
        reasons = {
            "hidden": "is hidden now: use an id from the newest list",
            "covered": f"is covered by {self.by}: close or move that first",
            "unlisted": "is an option of a closed list: choose it with select_option",
        }
        if self.missing not in reasons:
            raise gone(number)
        raise UnknownElementError(f"element {number} {reasons[self.missing]}")


class OptionSelection(msgspec.Struct, frozen=True):
    """The result of choosing an option."""

    label: str = ""
    value: str = ""
    changed: bool = False
    problem: Literal["gone", "kind", "unknown", "disabled list", "disabled option"] | None = None
    tag: str = ""
    labels: tuple[str, ...] = ()
    total: int = 0

    def choice(self, number: int, wanted: str | None) -> ChosenOption:
        if self.problem is None:
            return ChosenOption(self.label, self.value, self.changed)
        raise self._error(number, wanted)

    def _error(self, number: int, wanted: str | None) -> CommandError:
        match self.problem:
            case "kind":
                return UnknownElementError(
                    f"element {number} is neither a list nor an option, but <{self.tag}>"
                )
            case "unknown":
                why = "give an option" if wanted is None else f"unknown option {wanted[:60]!r}"
                return CommandError(f"list {number}: {why}; it has {self._listed()}")
            case "disabled list":
                return CommandError(f"list {number} is disabled")
            case "disabled option":
                return CommandError(f"option {self.label!r} is disabled")
            case _:
                return gone(number)

    def _listed(self) -> str:
        more = self.total - len(self.labels)
        return (", ".join(self.labels) or "none") + (f" and {more} more" if more else "")


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


class ScrollResult(msgspec.Struct, frozen=True):
    """The result of scrolling."""

    moved: bool = False
    by: float = 0
    problem: Literal["gone"] | None = None

    def of(self, number: int) -> bool:
        """Whether something moved. Raises UnknownElementError."""
        if self.problem is not None:
            raise gone(number)
        return self.moved


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
