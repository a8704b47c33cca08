"""What all actions have in common: targets, their arguments with what is allowed, and tool calls.

*An action* is a frozen struct. It has its key in trajectories, its arguments and the browser
command it becomes; `str` of it is a short text for people. Its target is a `Point`, in thousandths
of the viewport, or a `Mark`, the number of an element that the set-of-marks mode draws on the page.
"""

from collections.abc import Callable, Mapping
from typing import Annotated, ClassVar, Concatenate, Literal, ParamSpec

import msgspec
from msgspec import Meta

from rollgym.records.failure import cut_text
from webgym.browser.contract.answers import VIEWPORT_HEIGHT, VIEWPORT_WIDTH
from webgym.browser.contract.commands import FILE_NAME, LONGEST_SLEEP, Command, InteractionMode

TOOLS: dict[InteractionMode, str] = {
    "coordinates": "computer_use",
    "set_of_marks": "web_interaction",
}
P = ParamSpec("P")
FULL_SCALE = 1000
EXCERPT = 80

_Scale = Annotated[float, Meta(ge=0, le=FULL_SCALE)]
_Coordinate = Annotated[
    tuple[_Scale, ...],
    Meta(
        min_length=2,
        max_length=2,
        description=f"[x, y], two numbers from 0 to {FULL_SCALE}: thousandths of the screen's "
        "width and height, from its upper left corner",
    ),
]
_ElementId = Annotated[
    int, Meta(ge=1, le=10**9, description="the number of an element, as the page shows it")
]
Text = Annotated[str, Meta(max_length=100_000, description="a text")]
Option = Annotated[str, Meta(max_length=1_000, description="the text of an option of the list")]
Time = Annotated[
    float, Meta(ge=0, le=LONGEST_SLEEP, description=f"seconds, from 0 to {LONGEST_SLEEP:g}")
]
Url = Annotated[
    str,
    Meta(
        pattern=r"^[Hh][Tt][Tt][Pp][Ss]?://[^\s/]",
        max_length=8_192,
        description="a whole address, such as https://example.org/page",
    ),
]
Keys = Annotated[
    tuple[Annotated[str, Meta(min_length=1, max_length=32)], ...],
    Meta(
        min_length=1,
        max_length=8,
        description='a list of keys to press together, such as ["Enter"] or ["Control", "a"]',
    ),
]
UpOrDown = Annotated[Literal["up", "down"], Meta(description="up or down")]
Direction = Annotated[
    Literal["up", "down", "left", "right"], Meta(description="up, down, left or right")
]
PressEnter = Annotated[bool, Meta(description="false to type without pressing Enter after it")]
Offset = Annotated[
    tuple[Annotated[float, Meta(ge=-FULL_SCALE, le=FULL_SCALE)], ...],
    Meta(
        min_length=2,
        max_length=2,
        description="[right, down], two numbers in thousandths of the screen's width and "
        "height; negative ones are left and up",
    ),
]
Value = Annotated[float, Meta(ge=-1e12, le=1e12, description="a number")]
TabNumber = Annotated[int, Meta(ge=1, le=10**6, description="the number of a tab")]
FileName = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=200,
        pattern=FILE_NAME,
        description="the name of one of the task's files",
    ),
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
TARGET_FIELDS = {"target": "", "to": "to_"}
"""The fields that are targets, and what their arguments begin with."""


class ToolCall(msgspec.Struct, frozen=True):
    """A tool call as a model writes it."""

    name: str
    arguments: dict[str, object]

    @property
    def text(self) -> str:
        """The call as it appears in a reply."""
        return f"<tool_call>\n{msgspec.json.encode(self).decode()}\n</tool_call>"


class Action(msgspec.Struct, frozen=True):
    """One thing an agent can do. Each field is an argument; the mode names `target` and `to`."""

    key: ClassVar[str]
    """The name in trajectories."""
    meaning: ClassVar[str]
    """What it does, for prompts."""
    verbs: ClassVar[Mapping[InteractionMode, str]]
    """The name in each mode that has this action."""
    needs_with_coordinates: ClassVar[frozenset[str]] = frozenset()
    """Optional arguments that are required with coordinates."""

    def to_command(self, viewport: Viewport) -> Command | None:
        """The browser command of this action, or None where it has none."""
        raise NotImplementedError

    @property
    def arguments(self) -> dict[str, object]:
        """The arguments of a call, without the name of the action."""
        arguments: dict[str, object] = {}
        for name, value in msgspec.structs.asdict(self).items():
            match value:
                case None:
                    continue
                case Point():
                    aimed = [_plain(value.x), _plain(value.y)]
                    arguments[f"{TARGET_FIELDS[name]}coordinate"] = aimed
                case Mark():
                    arguments[f"{TARGET_FIELDS[name]}element_id"] = value.id
                case _:
                    arguments[name] = _plain(value)
        return arguments

    def write(self, mode: InteractionMode) -> ToolCall:
        """The call that `read_action` reads as this action. Raises ActionError."""
        arguments = self.arguments
        verb = self.verbs.get(mode)
        other_target = "element_id" if mode == "coordinates" else "coordinate"
        if verb is None or other_target in arguments:
            raise ActionError(f"`{self}` cannot be written in the mode {mode}")
        return ToolCall(TOOLS[mode], {"action": verb} | arguments)


def at_target(
    target: Target,
    viewport: Viewport,
    at_mark: Callable[Concatenate[int, P], Command],
    at_pixel: Callable[Concatenate[int, int, P], Command],
    *arguments: P.args,
    **options: P.kwargs,
) -> Command:
    """The command at an element, or at the pixel of a point."""
    if isinstance(target, Mark):
        return at_mark(target.id, *arguments, **options)
    return at_pixel(*target.pixel(viewport), *arguments, **options)


def both(name: str) -> Mapping[InteractionMode, str]:
    """The verbs of an action that has the same name in both modes."""
    return dict.fromkeys(TOOLS, name)


def _pixel(scaled: float, size: int) -> int:
    return min(round(scaled * size / FULL_SCALE), size - 1)


def _plain(value: object) -> object:
    """The value as JSON has it: whole numbers without a decimal point."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return list(value) if isinstance(value, tuple) else value


def quoted(text: str) -> str:
    return f'"{shorten_line(text)}"'


def shorten_line(text: str) -> str:
    """The text on one line, cut to a readable length."""
    return cut_text(" ".join(text.split()), EXCERPT)
