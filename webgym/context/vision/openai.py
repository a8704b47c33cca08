"""The action space of OpenAI's computer use, as one JSON object in the reply.

    {"type": "click", "button": "left", "x": 640, "y": 260}

Coordinates are pixels of the screenshot. There the reply without an action is the answer; here a
reply that starts with `Answer:` is, so that a reply which goes wrong does not end the task.
"""

from collections.abc import Mapping
from typing import cast

from webgym.actions.space import (
    Action,
    Click,
    DoubleClick,
    Drag,
    GiveAnswer,
    GoBack,
    Hover,
    Point,
    RightClick,
    Wait,
)
from webgym.context.parsers.blocks import find_object
from webgym.context.parsers.loose_json import ReplyError, Tolerances
from webgym.context.vision.screens import Screen, ScreenFormat, pause, press

ANSWER = "Answer:"
WAIT_SECONDS = 2.0
_FORMS = {
    "click": '{"type": "click", "button": "left", "x": X, "y": Y} (left, right, back or forward)',
    "double_click": '{"type": "double_click", "x": X, "y": Y}',
    "move": '{"type": "move", "x": X, "y": Y}',
    "drag": '{"type": "drag", "path": [{"x": X, "y": Y}, {"x": X, "y": Y}]}',
    "scroll": '{"type": "scroll", "x": X, "y": Y, "scroll_x": PIXELS, "scroll_y": PIXELS}',
    "type": '{"type": "type", "text": TEXT}, which types where the last click was',
    "keypress": '{"type": "keypress", "keys": ["CTRL", "A"]}',
    "wait": '{"type": "wait"}',
    "screenshot": '{"type": "screenshot"}',
}


class OpenAiComputerFormat(ScreenFormat):
    """The action space of OpenAI's computer use."""

    def prompt(self, width: int, height: int) -> str:
        forms = "\n".join(_FORMS.values())
        return (
            "You operate a web browser to carry out a task. In every round you get a screenshot "
            f"of {width} x {height} pixels, and reply with one action, a JSON object of one of "
            f"these forms:\n{forms}\n"
            f"When the task is done, reply with `{ANSWER}` and the answer instead."
        )

    def read_action(
        self, said: str, screen: Screen, fields: dict[str, object], tolerances: Tolerances
    ) -> Action:
        if said.startswith(ANSWER):
            answer = said.removeprefix(ANSWER).strip()
            if not answer:
                raise ReplyError(f"there is nothing after `{ANSWER}`")
            return GiveAnswer(answer)
        found = find_object(said, "type", tolerances)
        if found.head.strip():
            fields["action"] = found.head.strip()
        return _read(cast("Mapping[str, object]", found.call), screen)


def _read(  # noqa: C901, PLR0911, PLR0912 - a case for each action
    given: Mapping[str, object], screen: Screen
) -> Action:
    """Raises ReplyError."""
    kind, button = given.get("type"), given.get("button", "left")
    match kind:
        case "click" if button == "back":
            return GoBack()
        case "click" if button == "forward":
            return press(["Alt", "ArrowRight"])
        case "click" if button in {"left", "right"}:
            return (Click if button == "left" else RightClick)(_point(given, screen))
        case "double_click":
            return DoubleClick(_point(given, screen))
        case "move":
            return Hover(_point(given, screen))
        case "drag":
            match given.get("path"):
                case [Mapping() as start, *_, Mapping() as end]:
                    return Drag(_point(start, screen), _point(end, screen))
        case "scroll":
            distances = [given.get("scroll_x", 0), given.get("scroll_y", 0)]
            if all(isinstance(each, int | float) for each in distances):
                right, down = (float(str(each)) for each in distances)
                return screen.scroll(_point(given, screen), right, down)
        case "type" if isinstance(text := given.get("text"), str):
            return screen.type(text)
        case "keypress" if isinstance(keys := given.get("keys"), list):
            return press(keys)
        case "wait":
            return pause(WAIT_SECONDS)
        case "screenshot":
            return Wait(0.0)
    if kind in _FORMS:
        raise ReplyError(f"this `{kind}` cannot be carried out; write {_FORMS[str(kind)]}")
    raise ReplyError(f"there is no action {str(kind)[:60]!r}: there are {', '.join(_FORMS)}")


def _point(given: Mapping[str, object], screen: Screen) -> Point:
    return screen.point(given.get("x"), given.get("y"))


OPENAI_COMPUTER_USE = OpenAiComputerFormat("pixels")
