"""UI-TARS: a thought, and an action written as a call of a function.

    Thought: I have to click on the search field.
    Action: click(start_box='(512,340)')

UI-TARS writes thousandths of the screenshot, UI-TARS-1.5 pixels of the resized screenshot. A place
is written as `(x,y)`, also between box tokens, as `<point>x y</point>`, or as a box `[x1, y1, x2,
y2]`, of which the middle is meant. `finished` ends the task with its content as the answer.
"""

import re
from collections.abc import Mapping

from webgym.actions.space import Action, Click, DoubleClick, Drag, GiveAnswer, Point, RightClick
from webgym.context.parsers.loose_json import ReplyError, Tolerances
from webgym.context.vision.screens import Screen, ScreenFormat, pause, press

WAIT_SECONDS = 5.0
LONGEST_CALL = 20_000
_FORMS = {
    "click": "click(start_box='(x,y)')",
    "left_double": "left_double(start_box='(x,y)')",
    "right_single": "right_single(start_box='(x,y)')",
    "drag": "drag(start_box='(x,y)', end_box='(x,y)')",
    "hotkey": "hotkey(key='ctrl c')",
    "type": "type(content='text')",
    "scroll": "scroll(start_box='(x,y)', direction='down')",
    "wait": "wait()",
    "finished": "finished(content='answer')",
    "call_user": "call_user()",
}
_NOTES = {
    "type": "types where the last click was; end the content with \\n to press Enter",
    "scroll": "the direction is down, up, right or left",
    "wait": "waits for 5 seconds",
    "finished": "ends the task; the content is its answer",
    "call_user": "ends the task, because it cannot be done without the user",
}
_ACTION = re.compile(r"^[ \t]*+Action:[ \t]*+", re.MULTILINE)
_CALL = re.compile(r"([a-z_]++)\((.*)\)", re.DOTALL)
_ARGUMENT = re.compile(
    r"\s*+([a-z_]++)\s*+=\s*+('(?:[^'\\]|\\.)*+'|\"(?:[^\"\\]|\\.)*+\")\s*+(,|$)", re.DOTALL
)
_NUMBERS = re.compile(r"-?[0-9]{1,9}(?:\.[0-9]{1,9})?")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t"}
_WHEEL = {"down": (0.0, 1.0), "up": (0.0, -1.0), "right": (1.0, 0.0), "left": (-1.0, 0.0)}


class UiTarsFormat(ScreenFormat):
    """UI-TARS with `thousandths`, UI-TARS-1.5 with `resized`."""

    def prompt(self, width: int, height: int) -> str:
        actions = "\n".join(
            f"{form}{f' # {_NOTES[name]}' if name in _NOTES else ''}"
            for name, form in _FORMS.items()
        )
        return (
            "You are a GUI agent in a web browser. You get a task, your earlier replies and "
            "screenshots, and you do the next action of the task.\n\n"
            "## Output Format\nThought: ...\nAction: ...\n\n"
            f"## Action Space\n{actions}\n\n"
            f"x goes from 0 to {width}, y from 0 to {height}."
        )

    def read_action(
        self, said: str, screen: Screen, fields: dict[str, object], tolerances: Tolerances
    ) -> Action:
        actions = list(_ACTION.finditer(said))
        if len(actions) != 1:
            raise ReplyError(f"the reply needs one line `Action: …`; it had {len(actions)}")
        thought = said[: actions[0].start()].strip().removeprefix("Thought:").strip()
        if thought:
            fields["thought"] = thought
        written = said[actions[0].end() :].strip()
        fields["action"] = written
        name, arguments = _read_call(written)
        return _action(name, arguments, screen, tolerances)


def _read_call(written: str) -> tuple[str, dict[str, str]]:
    """Raises ReplyError."""
    call = _CALL.fullmatch(written) if len(written) <= LONGEST_CALL else None
    if call is None:
        raise ReplyError(f"the action is not a function call, such as {_FORMS['click']}")
    arguments: dict[str, str] = {}
    at, text = 0, call[2]
    while at < len(text):
        found = _ARGUMENT.match(text, at)
        if found is None or found[1] in arguments:
            form = _FORMS.get(call[1], _FORMS["click"])
            raise ReplyError(f"the arguments of the action cannot be read; write {form}")
        arguments[found[1]] = _ESCAPE.sub(_unescaped, found[2][1:-1])
        at = found.end()
    return call[1], arguments


def _unescaped(escape: re.Match[str]) -> str:
    return _ESCAPED.get(escape[1], escape[1])


def _action(  # noqa: C901, PLR0911 - a case for each action
    name: str, given: Mapping[str, str], screen: Screen, tolerances: Tolerances
) -> Action:
    """Raises ReplyError."""
    point = _point(given.get("start_box") or given.get("point") or given.get("start_point"), screen)
    end = _point(given.get("end_box") or given.get("end_point"), screen)
    match name:
        case "click" if point:
            return Click(point)
        case "left_double" if point:
            return DoubleClick(point)
        case "right_single" if point:
            return RightClick(point)
        case "drag" if point and end:
            return Drag(point, end)
        case "hotkey":
            return press(given.get("key", "").split())
        case "type" if "content" in given:
            return screen.type(given["content"])
        case "scroll" if given.get("direction") in _WHEEL:
            return screen.scroll(point, *_WHEEL[given["direction"]])
        case "wait":
            return pause(WAIT_SECONDS)
        case "finished":
            if not given.get("content"):
                tolerances.note("no_answer")
            return GiveAnswer(given.get("content") or "The task is done.")
        case "call_user":
            return GiveAnswer("The task cannot be done without the user.")
    if name in _FORMS:
        raise ReplyError(f"`{name}` lacks an argument; write {_FORMS[name]}")
    raise ReplyError(f"there is no action {name[:60]}: there are {', '.join(_FORMS)}")


def _point(text: str | None, screen: Screen) -> Point | None:
    if not text:
        return None
    numbers = [float(each) for each in _NUMBERS.findall(text)]
    if len(numbers) == 4:
        left, top, right, bottom = numbers
        numbers = [(left + right) / 2, (top + bottom) / 2]
    if len(numbers) != 2:
        raise ReplyError(f"{text[:60]!r} is not a place; write '(x,y)'")
    return screen.point(*numbers)


UI_TARS = UiTarsFormat("thousandths")
UI_TARS_15 = UiTarsFormat("resized")
