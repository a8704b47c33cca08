"""What the page script answers about elements, and how it is said when something cannot be done.

The script answers with short reasons ("gone", "covered"); here they become the typed errors of the
contract, with a message that tells an agent what to do next.
"""

from typing import Literal

import msgspec

from webgym.browser.contract.errors import CommandError, UnknownElementError

Kind = Literal[
    "text", "rich", "picker", "toggle", "file", "dropdown", "listbox", "option", "button", "other"
]
"""How a field is filled: `text` and `rich` by typing, a `picker` by setting its value."""


class Facts(msgspec.Struct, frozen=True):
    """What an element is. `type` is that of an input; `focused`: it will receive what is typed."""

    tag: str
    kind: Kind = "other"
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


class Place(msgspec.Struct, frozen=True):
    """A point of the viewport where a click meets an element.

    `scrolled`: the page was scrolled to it just now, and its scripts may still react to that.
    """

    x: float
    y: float
    facts: Facts
    scrolled: bool = False


class Met(msgspec.Struct, frozen=True):
    """What is at a point or has the focus, if anything."""

    facts: Facts | None = None
    prepared: bool = False


class Choice(msgspec.Struct, frozen=True):
    """The option that is chosen now; `changed` is False where it was before."""

    label: str
    value: str
    changed: bool


class Selected(msgspec.Struct, frozen=True):
    """Whether the content of the focused field is selected, and whether there is any."""

    selected: bool
    empty: bool


class Stillness(msgspec.Struct, frozen=True):
    """How the wait for a page to come to rest ended."""

    quiet: bool
    mutations: int


class Located(msgspec.Struct, frozen=True):
    """The script's answer to where an element is: a point, or why there is none."""

    x: float = 0
    y: float = 0
    scrolled: bool = False
    facts: Facts | None = None
    missing: Literal["gone", "hidden", "covered", "unlisted"] | None = None
    by: str = ""

    def place(self, number: int) -> Place:
        if self.missing is None and self.facts is not None:
            return Place(self.x, self.y, self.facts, self.scrolled)
        reasons = {
            "hidden": "is hidden now: take an id from the newest list",
            "covered": f"is covered by {self.by}: deal with that first",
            "unlisted": "is an option of a closed list: choose it with select_option",
        }
        if self.missing not in reasons:
            raise gone(number)
        raise UnknownElementError(f"element {number} {reasons[self.missing]}")


class Selection(msgspec.Struct, frozen=True):
    """The script's answer to choosing an option."""

    label: str = ""
    value: str = ""
    changed: bool = False
    problem: Literal["gone", "kind", "unknown", "disabled list", "disabled option"] | None = None
    tag: str = ""
    labels: tuple[str, ...] = ()
    total: int = 0

    def choice(self, number: int, wanted: str | None) -> Choice:
        if self.problem is None:
            return Choice(self.label, self.value, self.changed)
        raise self._error(number, wanted)

    def _error(self, number: int, wanted: str | None) -> CommandError:
        match self.problem:
            case "kind":
                return UnknownElementError(
                    f"element {number} is no list and no option of one, but <{self.tag}>"
                )
            case "unknown":
                asked = "say which option" if wanted is None else f"no option {wanted[:60]!r}"
                return CommandError(f"list {number}: {asked}; it has {self._listed()}")
            case "disabled list":
                return CommandError(f"list {number} is disabled")
            case "disabled option":
                return CommandError(f"option {self.label!r} is disabled")
            case _:
                return gone(number)

    def _listed(self) -> str:
        more = self.total - len(self.labels)
        return (", ".join(self.labels) or "none") + (f" and {more} more" if more else "")


class SpecialValue(msgspec.Struct, frozen=True):
    """The script's answer to setting the value of a field that is not typed into."""

    value: str = ""
    problem: Literal["gone", "kind", "disabled", "form"] | None = None
    kind: str = ""
    type: str = ""
    form: str = ""

    def accepted(self, wanted: str) -> str:
        reasons = {
            "kind": f"this is no field with a picker, but one of kind {self.kind}",
            "disabled": "the field is disabled or read-only",
            "form": f"a {self.type} field takes {self.form}, not {wanted[:60]!r}",
        }
        if self.problem is None:
            return self.value
        if self.problem == "gone":
            raise UnknownElementError("the field is gone: the page has changed")
        raise CommandError(reasons[self.problem])


class Movement(msgspec.Struct, frozen=True):
    """The script's answer to scrolling."""

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
        f"there is no element {number} on the page now: take an id from the newest list"
    )
