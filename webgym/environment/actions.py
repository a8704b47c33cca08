"""The action space: what an agent can do, in the one place that knows.

*An action* is a frozen struct. It knows its key in trajectories, its arguments, the browser command
it becomes, and `str` of it is a short text for people. What it is aimed at is a `Point`, in
thousandths of the viewport, or a `Mark`, a number that the set-of-marks mode has drawn on the page.

*A tool per mode.* A model acts by calling one tool: `computer_use` where it gives coordinates,
`web_interaction` where it gives marks. The argument `action` says which action; what it is called
there, and whether there is one, may differ between the modes (`verbs`). The struct's fields are the
other arguments, and their types say what is allowed and how to put it in words. Schemas, the reader
and the writer are made from that, so a new action is a new class and nothing else.

*Nothing is guessed.* A call that leaves something out, names something unknown or is out of range
raises an ActionError, whose message is written for the model.
"""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Annotated, Any, ClassVar, Literal, get_args

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
    """A call is no action. The message says what is wrong with it, and is fit for the model."""


class Viewport(msgspec.Struct, frozen=True):
    """The size of what a screenshot shows, in pixels."""

    width: Annotated[int, Meta(ge=1)] = VIEWPORT_WIDTH
    height: Annotated[int, Meta(ge=1)] = VIEWPORT_HEIGHT


class Point(msgspec.Struct, frozen=True):
    """A place in the viewport: (0, 0) is its upper left corner, (1000, 1000) its lower right."""

    x: float
    y: float

    def __str__(self) -> str:
        return f"({self.x:g}, {self.y:g})"

    def pixel(self, viewport: Viewport) -> tuple[int, int]:
        """The pixel there; on the far edges the last one."""
        return _pixel(self.x, viewport.width), _pixel(self.y, viewport.height)


class Mark(msgspec.Struct, frozen=True):
    """An element that has a number."""

    id: int

    def __str__(self) -> str:
        return f"[{self.id}]"


Target = Point | Mark
_TARGETS: dict[InteractionMode, tuple[str, object]] = {
    "coordinates": ("coordinate", _Coordinate),
    "set_of_marks": ("element_id", _ElementId),
}


class ToolCall(msgspec.Struct, frozen=True):
    """What a model writes, in its parts."""

    name: str
    arguments: dict[str, object]

    @property
    def text(self) -> str:
        """As it stands in a reply."""
        return f"<tool_call>\n{msgspec.json.encode(self).decode()}\n</tool_call>"


class Action(msgspec.Struct, frozen=True):
    """One thing an agent can do. Each field is an argument; `target` is named by the mode."""

    key: ClassVar[str]
    """Its name in trajectories."""
    meaning: ClassVar[str]
    """What it does, for prompts."""
    verbs: ClassVar[Mapping[InteractionMode, str]]
    """What it is called in each mode that has it."""

    def to_command(self, viewport: Viewport) -> Command | None:
        """The browser command it becomes, if it becomes one."""
        raise NotImplementedError

    @property
    def arguments(self) -> dict[str, object]:
        """As a call has them, less the action's name."""
        given = msgspec.structs.asdict(self)
        target = given.pop("target", None)
        aim: dict[str, object] = {}
        if isinstance(target, Point):
            aim = {"coordinate": [_plain(target.x), _plain(target.y)]}
        elif isinstance(target, Mark):
            aim = {"element_id": target.id}
        return aim | {name: _plain(value) for name, value in given.items() if value is not None}

    def write(self, mode: InteractionMode) -> ToolCall:
        """The call that `read_action` reads as this action. Raises ActionError."""
        arguments = self.arguments
        verb = self.verbs.get(mode)
        other_aim = "element_id" if mode == "coordinates" else "coordinate"
        if verb is None or other_aim in arguments:
            raise ActionError(f"`{self}` is no action of the mode {mode}")
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
    """With coordinates there is none: a click opens the list in the page, another one chooses."""

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
        return f"open {_short(self.url)}"

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


class _Parameter(msgspec.Struct, frozen=True):
    """An argument of an action in one mode. `type` is what msgspec reads it as."""

    name: str
    field: str
    type: object
    required: bool

    @property
    def schema(self) -> dict[str, object]:
        return msgspec.json.schema(self.type)

    def read(self, value: object) -> object:
        """Raises ActionError."""
        try:
            read: Any = msgspec.convert(value, self.type)
            msgspec.json.encode(read)
        except (msgspec.ValidationError, UnicodeEncodeError) as error:
            wanted = self.schema["description"]
            raise ActionError(f"`{self.name}` must be {wanted}; it was {_shown(value)}") from error
        if self.field != "target":
            return read
        return Mark(read) if isinstance(read, int) else Point(*read)


def actions_of(mode: InteractionMode) -> dict[str, type[Action]]:
    """The actions that a mode has, by what they are called there."""
    return {kind.verbs[mode]: kind for kind in ACTIONS.values() if mode in kind.verbs}


def read_action(mode: InteractionMode, name: str, arguments: object) -> Action:
    """The action that a call of the tool `name` asks for. Raises ActionError."""
    if name != TOOLS[mode]:
        raise ActionError(f"there is no tool {_shown(name)}: use {TOOLS[mode]}")
    if not isinstance(arguments, Mapping):
        raise ActionError(f"`arguments` must be an object; it was {_shown(arguments)}")
    given = {key: value for key, value in arguments.items() if value is not None}
    verb = given.pop("action", None)
    kind = actions_of(mode).get(verb) if isinstance(verb, str) else None
    if kind is None:
        raise ActionError(_unknown_action(mode, verb))
    parameters = _parameters(kind, mode)
    known = [parameter.name for parameter in parameters]
    unknown = [name for name in given if name not in known]
    if unknown:
        takes = " and ".join(f"`{name}`" for name in known) or "no arguments"
        raise ActionError(f"`{verb}` takes {takes}, not {_shown(unknown[0])}")
    missing = [each.name for each in parameters if each.required and each.name not in given]
    if missing:
        raise ActionError(f"`{verb}` needs `{missing[0]}`")
    return kind(
        **{each.field: each.read(given[each.name]) for each in parameters if each.name in given}
    )


def tool_schema(mode: InteractionMode) -> dict[str, object]:
    """The tool as a prompt or a chat request shows it: one object, its arguments side by side."""
    kinds = actions_of(mode)
    meanings = "\n".join(
        f"- {_signature(verb, _parameters(kind, mode))}: {kind.meaning}"
        for verb, kind in kinds.items()
    )
    properties: dict[str, object] = {"action": {"type": "string", "enum": list(kinds)}}
    for kind in kinds.values():
        for parameter in _parameters(kind, mode):
            # Of two kinds of the same name the later is the wider one.
            properties[parameter.name] = parameter.schema
    return {
        "type": "function",
        "function": {
            "name": TOOLS[mode],
            "description": f"Act in the web browser. The actions are:\n{meanings}",
            "parameters": {"type": "object", "properties": properties, "required": ["action"]},
        },
    }


def call_schema(mode: InteractionMode) -> dict[str, object]:
    """What a call must be, exactly: for decoding under constraints, and for checking."""
    calls: list[object] = []
    for verb, kind in actions_of(mode).items():
        parameters = _parameters(kind, mode)
        properties: dict[str, object] = {"action": {"const": verb}}
        properties |= {each.name: each.schema for each in parameters}
        required = ["action", *(each.name for each in parameters if each.required)]
        calls.append(_closed_object(properties, required))
    parts: dict[str, object] = {"name": {"const": TOOLS[mode]}, "arguments": {"oneOf": calls}}
    return _closed_object(parts, list(parts))


def _closed_object(properties: Mapping[str, object], required: list[str]) -> dict[str, object]:
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def _parameters(kind: type[Action], mode: InteractionMode) -> list[_Parameter]:
    parameters = []
    for field in msgspec.structs.fields(kind):
        name, wanted = field.name, field.type
        if name == "target":
            name, wanted = _TARGETS[mode]
        elif not field.required:
            wanted = get_args(wanted)[0]  # a call leaves it out rather than giving null
        parameters.append(_Parameter(name, field.name, wanted, field.required))
    return parameters


def _signature(verb: str, parameters: list[_Parameter]) -> str:
    names = [each.name if each.required else f"{each.name}?" for each in parameters]
    return f"{verb}({', '.join(names)})"


def _unknown_action(mode: InteractionMode, verb: object) -> str:
    verbs = list(actions_of(mode))
    if verb is None:
        return f"`action` is missing: it is one of {', '.join(verbs)}"
    near = get_close_matches(str(verb)[:EXCERPT], verbs, 1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(verbs)}"
    return f"there is no action {_shown(verb)}: {hint}"


def _pixel(scaled: float, size: int) -> int:
    return min(round(scaled * size / FULL_SCALE), size - 1)


def _plain(value: object) -> object:
    """As JSON shows it: whole numbers without a point."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return list(value) if isinstance(value, tuple) else value


def _quoted(text: str) -> str:
    return f'"{_short(text)}"'


def _shown(value: object) -> str:
    return _short(repr(value))


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= EXCERPT else f"{line[: EXCERPT - 1]}…"
