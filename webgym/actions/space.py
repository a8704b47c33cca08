"""The action space: everything an agent can do, defined once.

*An action* is a frozen struct. It has its key in trajectories, its arguments and the browser
command it becomes; `str` of it is a short text for people. Its target is a `Point`, in thousandths
of the viewport, or a `Mark`, the number of an element that the set-of-marks mode draws on the page.

*One tool per mode.* A model acts by calling one tool: `computer_use` with coordinates,
`web_interaction` with marks. The argument `action` names the action; that name may differ between
the modes, and a mode may lack an action (`verbs`). The struct's fields are the other arguments, and
their types say what is allowed and describe it. Schemas, reading and writing (`tool_calls`) are
derived from the structs, so a new action is a new class and nothing else.
"""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import Meta

from webgym.browser.contract.answers import VIEWPORT_HEIGHT, VIEWPORT_WIDTH
from webgym.browser.contract.commands import (
    LONGEST_SLEEP,
    Back,
    ClickCoords,
    ClickId,
    Command,
    FillCoords,
    FillId,
    HoverAndScrollCoords,
    HoverCoords,
    HoverId,
    InteractionMode,
    Keypress,
    PageDown,
    PageUp,
    ScrollId,
    SelectOption,
    Sleep,
    TabAndEnter,
    VisitPage,
)

TOOLS: dict[InteractionMode, str] = {
    "coordinates": "computer_use",
    "set_of_marks": "web_interaction",
}
FULL_SCALE = 1000
EXCERPT = 80

_Scale = Annotated[float, Meta(ge=0, le=FULL_SCALE)]
_Coordinate = Annotated[
    tuple[_Scale, ...],
    Meta(
        min_length=2,
        max_length=2,
        description=f"[x, y], two numbers from 0 to {FULL_SCALE}: thousandths of the screenshot's "
        "width and height, from its upper left corner",
    ),
]
_ElementId = Annotated[
    int, Meta(ge=1, le=10**9, description="the number of an element, as the screenshot shows it")
]
_Text = Annotated[str, Meta(max_length=100_000, description="a text")]
_Option = Annotated[str, Meta(max_length=1_000, description="the text of an option of the list")]
_Time = Annotated[
    float, Meta(ge=0, le=LONGEST_SLEEP, description=f"seconds, from 0 to {LONGEST_SLEEP:g}")
]
_Url = Annotated[
    str,
    Meta(
        pattern=r"^[Hh][Tt][Tt][Pp][Ss]?://[^\s/]",
        max_length=8_192,
        description="a whole address, such as https://example.org/page",
    ),
]
_Keys = Annotated[
    tuple[Annotated[str, Meta(min_length=1, max_length=32)], ...],
    Meta(
        min_length=1,
        max_length=8,
        description='a list of keys to press together, such as ["Enter"] or ["Control", "a"]',
    ),
]
_UpOrDown = Annotated[Literal["up", "down"], Meta(description="up or down")]
_Direction = Annotated[
    Literal["up", "down", "left", "right"], Meta(description="up, down, left or right")
]


class ActionError(Exception):
    """A tool call is not a valid action. The message explains the problem to the model."""


class Viewport(msgspec.Struct, frozen=True):
    """The size of a screenshot, in pixels."""

    width: Annotated[int, Meta(ge=1)] = VIEWPORT_WIDTH
    height: Annotated[int, Meta(ge=1)] = VIEWPORT_HEIGHT


class Point(msgspec.Struct, frozen=True):
    """A point in the viewport: (0, 0) is its upper left corner, (1000, 1000) its lower right."""

    x: float
    y: float

    def __str__(self) -> str:
        return f"({self.x:g}, {self.y:g})"

    def pixel(self, viewport: Viewport) -> tuple[int, int]:
        """The pixel at this point; at the far edges the last pixel."""
        return _pixel(self.x, viewport.width), _pixel(self.y, viewport.height)


class Mark(msgspec.Struct, frozen=True):
    """A numbered element."""

    id: int

    def __str__(self) -> str:
        return f"[{self.id}]"


Target = Point | Mark
TARGETS: dict[InteractionMode, tuple[str, object]] = {
    "coordinates": ("coordinate", _Coordinate),
    "set_of_marks": ("element_id", _ElementId),
}


class ToolCall(msgspec.Struct, frozen=True):
    """A tool call as a model writes it."""

    name: str
    arguments: dict[str, object]

    @property
    def text(self) -> str:
        """The call as it appears in a reply."""
        return f"<tool_call>\n{msgspec.json.encode(self).decode()}\n</tool_call>"


class Action(msgspec.Struct, frozen=True):
    """One thing an agent can do. Each field is an argument; the mode names `target`."""

    key: ClassVar[str]
    """The name in trajectories."""
    meaning: ClassVar[str]
    """What it does, for prompts."""
    verbs: ClassVar[Mapping[InteractionMode, str]]
    """The name in each mode that has this action."""

    def to_command(self, viewport: Viewport) -> Command | None:
        """The browser command of this action, or None where it has none."""
        raise NotImplementedError

    @property
    def arguments(self) -> dict[str, object]:
        """The arguments of a call, without the name of the action."""
        given = msgspec.structs.asdict(self)
        target = given.pop("target", None)
        aimed: dict[str, object] = {}
        if isinstance(target, Point):
            aimed = {"coordinate": [_plain(target.x), _plain(target.y)]}
        elif isinstance(target, Mark):
            aimed = {"element_id": target.id}
        return aimed | {name: _plain(value) for name, value in given.items() if value is not None}

    def write(self, mode: InteractionMode) -> ToolCall:
        """The call that `read_action` reads as this action. Raises ActionError."""
        arguments = self.arguments
        verb = self.verbs.get(mode)
        other_target = "element_id" if mode == "coordinates" else "coordinate"
        if verb is None or other_target in arguments:
            raise ActionError(f"`{self}` cannot be written in the mode {mode}")
        return ToolCall(TOOLS[mode], {"action": verb} | arguments)


class Click(Action, frozen=True):
    key = "click"
    meaning = "click there with the left mouse button"
    verbs = {"coordinates": "left_click", "set_of_marks": "click"}
    target: Target

    def __str__(self) -> str:
        return f"click on {self.target}"

    def to_command(self, viewport: Viewport) -> Command:
        if isinstance(self.target, Mark):
            return ClickId(self.target.id)
        return ClickCoords(*self.target.pixel(viewport))


class Hover(Action, frozen=True):
    key = "hover"
    meaning = "move the mouse there without clicking"
    verbs = {"coordinates": "hover", "set_of_marks": "hover"}
    target: Target

    def __str__(self) -> str:
        return f"hover over {self.target}"

    def to_command(self, viewport: Viewport) -> Command:
        if isinstance(self.target, Mark):
            return HoverId(self.target.id)
        return HoverCoords(*self.target.pixel(viewport))


class Type(Action, frozen=True):
    key = "type"
    meaning = "click on a field, replace what it holds by the text, and press Enter"
    verbs = {"coordinates": "type", "set_of_marks": "type"}
    target: Target
    text: _Text

    def __str__(self) -> str:
        return f"type {_quoted(self.text)} into {self.target}"

    def to_command(self, viewport: Viewport) -> Command:
        if isinstance(self.target, Mark):
            return FillId(self.target.id, self.text, press_enter=True, delete_existing=True)
        x, y = self.target.pixel(viewport)
        return FillCoords(x, y, self.text, press_enter=True, delete_existing=True)


class Scroll(Action, frozen=True):
    key = "scroll"
    meaning = "scroll the page by nearly a screen, up or down"
    verbs = {"coordinates": "scroll", "set_of_marks": "scroll"}
    direction: _UpOrDown

    def __str__(self) -> str:
        return f"scroll {self.direction}"

    def to_command(self, viewport: Viewport) -> Command:
        kind = PageDown if self.direction == "down" else PageUp
        return kind(full_page=True)


class HoverAndScroll(Action, frozen=True):
    key = "hover_and_scroll"
    meaning = "turn the mouse wheel there, to scroll a part of the page that scrolls by itself"
    verbs = {"coordinates": "hover_and_scroll", "set_of_marks": "hover_and_scroll"}
    target: Target
    direction: _Direction

    def __str__(self) -> str:
        return f"scroll {self.direction} over {self.target}"

    def to_command(self, viewport: Viewport) -> Command:
        if isinstance(self.target, Mark):
            return ScrollId(self.target.id, self.direction)
        return HoverAndScrollCoords(*self.target.pixel(viewport), self.direction)


class Select(Action, frozen=True):
    """Only with marks: with coordinates one click opens the list and another one chooses."""

    key = "select"
    meaning = "choose from a drop-down list: the list's number and `option`, or an option's number"
    verbs = {"set_of_marks": "select"}
    target: Mark
    option: _Option | None = None

    def __str__(self) -> str:
        if self.option is None:
            return f"select {self.target}"
        return f"select {_quoted(self.option)} in {self.target}"

    def to_command(self, viewport: Viewport) -> Command:
        return SelectOption(self.target.id, self.option)


class PressKeys(Action, frozen=True):
    key = "keypress"
    meaning = "press keys together"
    verbs = {"coordinates": "keypress", "set_of_marks": "keypress"}
    keys: _Keys

    def __str__(self) -> str:
        return f"press {'+'.join(self.keys)}"

    def to_command(self, viewport: Viewport) -> Command:
        return Keypress(self.keys)


class Wait(Action, frozen=True):
    key = "wait"
    meaning = "wait for the page to change"
    verbs = {"coordinates": "wait", "set_of_marks": "wait"}
    time: _Time

    def __str__(self) -> str:
        return f"wait for {self.time:g} s"

    def to_command(self, viewport: Viewport) -> Command:
        return Sleep(self.time)


class GoBack(Action, frozen=True):
    key = "goback"
    meaning = "go back to the page before"
    verbs = {"coordinates": "go_back", "set_of_marks": "go_back"}

    def __str__(self) -> str:
        return "go back"

    def to_command(self, viewport: Viewport) -> Command:
        return Back()


class TabThenEnter(Action, frozen=True):
    key = "tabandenter"
    meaning = "press Tab, then Enter"
    verbs = {"coordinates": "tab_and_enter", "set_of_marks": "tab_and_enter"}

    def __str__(self) -> str:
        return "press Tab, then Enter"

    def to_command(self, viewport: Viewport) -> Command:
        return TabAndEnter()


class Navigate(Action, frozen=True):
    key = "navigate"
    meaning = "open an address"
    verbs = {"coordinates": "navigate", "set_of_marks": "navigate"}
    url: _Url

    def __str__(self) -> str:
        return f"open {shorten_line(self.url)}"

    def to_command(self, viewport: Viewport) -> Command:
        return VisitPage(self.url)


class Answer(Action, frozen=True):
    key = "answer"
    meaning = "give the final answer, which ends the task"
    verbs = {"coordinates": "answer", "set_of_marks": "answer"}
    text: _Text

    def __str__(self) -> str:
        return f"answer {_quoted(self.text)}"

    def to_command(self, viewport: Viewport) -> None:
        return None


ACTIONS: dict[str, type[Action]] = {kind.key: kind for kind in Action.__subclasses__()}


def _pixel(scaled: float, size: int) -> int:
    return min(round(scaled * size / FULL_SCALE), size - 1)


def _plain(value: object) -> object:
    """The value as JSON has it: whole numbers without a decimal point."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return list(value) if isinstance(value, tuple) else value


def _quoted(text: str) -> str:
    return f'"{shorten_line(text)}"'


def shorten_line(text: str) -> str:
    """The text on one line, cut to a readable length."""
    line = " ".join(text.split())
    return line if len(line) <= EXCERPT else f"{line[: EXCERPT - 1]}…"
