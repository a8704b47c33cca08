"""Qwen-VL's computer use: one call of `computer_use` in `<tool_call>` tags.

    Action: Click on the search field.
    <tool_call>
    {"name": "computer_use", "arguments": {"action": "left_click", "coordinate": [512, 340]}}
    </tool_call>

Qwen3-VL writes thousandths of the screenshot, Qwen2.5-VL pixels of the resized screenshot. `answer`
ends a task with its text, `terminate` without one.
"""

from collections.abc import Mapping

import msgspec

from webgym.actions.space import (
    Action,
    Click,
    DoubleClick,
    Drag,
    GiveAnswer,
    Hover,
    Point,
    RightClick,
)
from webgym.context.parsers.blocks import find_call
from webgym.context.parsers.loose_json import ReplyError, Tolerances
from webgym.context.vision.screens import Screen, ScreenFormat, pause, press

NAME = "computer_use"
ENDINGS = {"success": "The task is done.", "failure": "The task could not be done."}
_AIMED: Mapping[str, type[Click | DoubleClick | RightClick | Hover]] = {
    "left_click": Click,
    "double_click": DoubleClick,
    "right_click": RightClick,
    "mouse_move": Hover,
}
_ACTIONS = {
    "left_click": "click at the coordinate",
    "double_click": "click twice at the coordinate",
    "right_click": "click at the coordinate with the right button",
    "mouse_move": "move the mouse to the coordinate",
    "left_click_drag": "drag from where the mouse is to the coordinate",
    "type": "type the text where the last click was; end it with a line break to press Enter",
    "key": "press the keys together",
    "scroll": "turn the wheel by `pixels`, upwards if they are positive, downwards if negative",
    "hscroll": "the same to the right and to the left",
    "wait": "wait for `time` seconds",
    "answer": "give the answer to the task, as `text`; this ends the task",
    "terminate": "end the task without an answer, with its status",
}
_PROPERTIES: Mapping[str, object] = {
    "action": {"type": "string", "enum": list(_ACTIONS)},
    "coordinate": {"type": "array", "description": "[x, y] on the screenshot"},
    "text": {"type": "string"},
    "keys": {"type": "array", "description": 'such as ["ctrl", "a"]'},
    "pixels": {"type": "number"},
    "time": {"type": "number"},
    "status": {"type": "string", "enum": list(ENDINGS)},
}


class QwenFormat(ScreenFormat):
    """Qwen3-VL with `thousandths`, Qwen2.5-VL with `resized`."""

    def prompt(self, width: int, height: int) -> str:
        meanings = "\n".join(f"* `{name}`: {meaning}" for name, meaning in _ACTIONS.items())
        tool = {
            "type": "function",
            "function": {
                "name": NAME,
                "description": "Use mouse and keyboard in a web browser, which is shown by "
                f"screenshots of {width}x{height}. The actions are:\n{meanings}",
                "parameters": {
                    "type": "object",
                    "properties": _PROPERTIES,
                    "required": ["action"],
                },
            },
        }
        return (
            "You operate a web browser to carry out a task.\n\n# Tools\n\n"
            f"<tools>\n{msgspec.json.encode(tool).decode()}\n</tools>\n\n"
            "In every round, say in one line after `Action:` what you do, and then call the tool "
            'once: a JSON object with "name" and "arguments", between <tool_call> and </tool_call>.'
        )

    def read_action(
        self, said: str, screen: Screen, fields: dict[str, object], tolerances: Tolerances
    ) -> Action:
        found = find_call(said, tolerances)
        head = found.head.strip().removeprefix("Action:").strip()
        if head:
            fields["action"] = head
        match found.call:
            case {"name": "computer_use", "arguments": Mapping() as arguments}:
                return _read(arguments, screen)
            case {"arguments": Mapping() as arguments, **others} if not others:
                tolerances.note("tool_name_missing")
                return _read(arguments, screen)
            case Mapping() as arguments if "action" in arguments:
                tolerances.note("tool_name_missing", "arguments_beside_name")
                return _read(arguments, screen)
        raise ReplyError(f'the call needs "name": "{NAME}", and "arguments" with an "action"')


def _read(  # noqa: PLR0911 - a case for each action
    given: Mapping[str, object], screen: Screen
) -> Action:
    """Raises ReplyError."""
    name, point = given.get("action"), _point(given.get("coordinate"), screen)
    match name:
        case "left_click" | "double_click" | "right_click" | "mouse_move":
            return _AIMED[name](point or screen.last_point("click"))
        case "left_click_drag" if point:
            return Drag(screen.last_point("drag"), point)
        case "type" if isinstance(text := given.get("text"), str):
            return screen.type(text)
        case "key":
            keys = given.get("keys")
            return press(keys if isinstance(keys, list) else str(keys or "").split("+"))
        case "scroll" | "hscroll" if isinstance(pixels := given.get("pixels"), int | float):
            amount = float(pixels)
            return screen.scroll(point, *((0.0, -amount) if name == "scroll" else (amount, 0.0)))
        case "wait":
            return pause(given.get("time"))
        case "answer" if isinstance(text := given.get("text"), str) and text:
            return GiveAnswer(text)
        case "terminate" if (status := str(given.get("status"))) in ENDINGS:
            return GiveAnswer(ENDINGS[status])
    if name in _ACTIONS:
        raise ReplyError(f"`{name}` lacks an argument: {_ACTIONS[str(name)]}")
    raise ReplyError(f"there is no action {str(name)[:60]!r}: there are {', '.join(_ACTIONS)}")


def _point(given: object, screen: Screen) -> Point | None:
    match given:
        case None:
            return None
        case [x, y]:
            return screen.point(x, y)
    raise ReplyError("`coordinate` must be [x, y]")


QWEN3_VL = QwenFormat("thousandths")
QWEN25_VL = QwenFormat("resized")
