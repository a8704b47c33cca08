"""What the formats of vision models share: a chat of screenshots, points, and typing.

    system     the actions, in the words of the format
    user       the task, a line for each step that is out of the window, a screenshot
    assistant  the reply, without its thinking
    user       the result of that reply, if it failed, and the next screenshot
    …

*Points.* Some models write thousandths of the screenshot, others pixels of the screenshot as their
image processor resizes it. `Screen` reads both as points of our actions; a point outside of the
screenshot is rejected.

*Typing and dragging.* These models type where the last click was, and some drag from where the
mouse is. Our actions name the place, so it is taken from the action right before. If that was no
click, or led to another page, the reply is rejected: the model has to click first.
"""

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Literal, TypeGuard

import msgspec

from rollgym.records.failure import cut_text
from webgym.actions.space import (
    FULL_SCALE,
    Action,
    HoverAndScroll,
    Point,
    PressKeys,
    Type,
    Wait,
)
from webgym.browser.contract.answers import PageInfo
from webgym.browser.contract.commands import LONGEST_SLEEP, InteractionMode
from webgym.context.conversation import incident_lines, older_steps, reply_turn, task_lines
from webgym.context.formats import (
    Chat,
    ChatImage,
    ChatTurn,
    ObservationKind,
    ParsedReply,
    PromptFormat,
    chat_of,
)
from webgym.context.page_text import escape_tags
from webgym.context.page_view import AgentObservation, Round
from webgym.context.parsers.loose_json import ReplyError, Tolerances
from webgym.context.parsers.reply import SplitReply, read_reply_with, require_reply
from webgym.context.settings import ContextSettings
from webgym.tasks.task import WebTask

Scale = Literal["thousandths", "pixels", "resized"]
PATCH = 28
"""Qwen2.5-VL's image processor makes both sides multiples of this many pixels."""
FEWEST_PIXELS, MOST_PIXELS = 3_136, 12_845_056
FEEDBACK_CHARACTERS = 1_000


def resized(width: int, height: int) -> tuple[int, int]:
    """The size of a screenshot as Qwen2.5-VL's image processor makes it."""
    sides = [max(PATCH, round(side / PATCH) * PATCH) for side in (width, height)]
    pixels = sides[0] * sides[1]
    if pixels > MOST_PIXELS:
        factor = (width * height / MOST_PIXELS) ** 0.5
        sides = [max(PATCH, int(side / factor / PATCH) * PATCH) for side in (width, height)]
    elif pixels < FEWEST_PIXELS:
        factor = (FEWEST_PIXELS / (width * height)) ** 0.5
        sides = [-int(-side * factor // PATCH) * PATCH for side in (width, height)]
    return sides[0], sides[1]


def screen_size(scale: Scale, page: PageInfo) -> tuple[int, int]:
    """The largest coordinates of a page's screenshot."""
    match scale:
        case "thousandths":
            return FULL_SCALE, FULL_SCALE
        case "pixels":
            return page.width, page.height
        case "resized":
            return resized(page.width, page.height)


class Screen(msgspec.Struct, frozen=True):
    """The current screenshot, and what was done right before it."""

    width: int
    height: int
    current: AgentObservation
    before: Round | None

    def point(self, x: object, y: object) -> Point:
        """Raises ReplyError for what is not a point of the screenshot."""
        if not _is_number(x) or not _is_number(y):
            raise ReplyError(f"a point needs two numbers, not {str((x, y))[:60]}")
        if not (0 <= x <= self.width and 0 <= y <= self.height):
            raise ReplyError(
                f"the point ({x:g}, {y:g}) is not on the screenshot, whose coordinates go from 0 "
                f"to {self.width} and {self.height}"
            )
        return Point(x * FULL_SCALE / self.width, y * FULL_SCALE / self.height)

    def last_point(self, to_do: str) -> Point:
        """Where the action right before clicked or moved. Raises ReplyError if it did not."""
        step = self.before.step if self.before else None
        done = step.action if step else None
        at = done.arguments.get("coordinate") if done and done.problem is None else None
        stayed = self.before is not None and (
            self.before.observation.page.url == self.current.page.url
        )
        if not isinstance(at, list | tuple) or len(at) != 2 or not stayed:
            raise ReplyError(f"click first where you want to {to_do}, and then {to_do}")
        return Point(*map(float, at))

    def type(self, text: str) -> Type:
        """Type where the last click was; a line break at the end presses Enter."""
        target = self.last_point("type")
        stripped = text.removesuffix("\n")
        return Type(target, stripped, press_enter=None if stripped != text else False)

    def scroll(self, point: Point | None, right: float, down: float) -> HoverAndScroll:
        """Turn the wheel there, or in the middle of the screen, in the larger direction."""
        point = point or Point(FULL_SCALE / 2, FULL_SCALE / 2)
        if right == down == 0:
            raise ReplyError("a scroll needs a distance or a direction")
        if abs(right) > abs(down):
            return HoverAndScroll(point, "right" if right > 0 else "left")
        return HoverAndScroll(point, "down" if down > 0 else "up")


def pause(seconds: object) -> Wait:
    """Raises ReplyError for what is not a number of seconds that can be waited."""
    if not _is_number(seconds) or not 0 <= seconds <= LONGEST_SLEEP:
        raise ReplyError(f"`wait` needs seconds, from 0 to {LONGEST_SLEEP:g}")
    return Wait(float(seconds))


def press(keys: Sequence[object]) -> PressKeys:
    """Raises ReplyError for what are not keys."""
    try:
        return msgspec.convert({"keys": keys}, PressKeys)
    except msgspec.ValidationError as error:
        raise ReplyError(f"one to eight keys are needed, such as Enter: {error}") from error


class ScreenFormat(PromptFormat):
    """A format of screenshots. Subclasses have the prompt, and read the action of a reply."""

    modes: ClassVar[tuple[InteractionMode, ...]] = ("coordinates",)
    observations: ClassVar[tuple[ObservationKind, ...]] = ("image",)

    def __init__(self, scale: Scale) -> None:
        self.scale = scale

    @abstractmethod
    def prompt(self, width: int, height: int) -> str:
        """The system prompt, for screenshots of this size."""

    @abstractmethod
    def read_action(
        self, said: str, screen: Screen, fields: dict[str, object], tolerances: Tolerances
    ) -> Action:
        """The action of a reply without its thinking. Raises ReplyError and ActionError.

        Other parts of the reply are added to `fields`.
        """

    def write_chat(
        self,
        settings: ContextSettings,
        task: WebTask,
        past: Sequence[Round],
        current: AgentObservation,
    ) -> Chat:
        first = max(0, len(past) - settings.window)
        opening = "\n\n".join([*task_lines(task), *older_steps(past, first, current)])
        turns = [ChatTurn("system", self.prompt(*screen_size(self.scale, current.page)))]
        for each in past[first:]:
            turns += [_screen_turn(each.observation, opening), reply_turn(each.step)]
            opening = ""
        return chat_of([*turns, _screen_turn(current, opening)])

    def read_reply(
        self,
        text: str,
        settings: ContextSettings,
        past: Sequence[Round],
        current: AgentObservation,
    ) -> ParsedReply:
        width, height = screen_size(self.scale, current.page)
        screen = Screen(width, height, current, past[-1] if past else None)

        def read(parts: SplitReply, fields: dict[str, object], tolerances: Tolerances) -> Action:
            require_reply(parts, "one action")
            return self.read_action(parts.said, screen, fields, tolerances)

        return read_reply_with(read, text)


def _screen_turn(current: AgentObservation, opening: str) -> ChatTurn:
    lines = [opening] if opening else []
    if current.feedback:
        feedback = cut_text(current.feedback, FEEDBACK_CHARACTERS)
        lines.append(f"What came of your last reply: {escape_tags(feedback)}")
    lines += incident_lines(current)
    image = ChatImage.of(current)
    if image is None:
        lines.append("There is no screenshot of this page.")
    return ChatTurn("user", "\n".join(lines), image)


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)
