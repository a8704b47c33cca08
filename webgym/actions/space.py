"""The action space: everything an agent can do, defined once.

*One tool per mode.* A model acts by calling one tool: `computer_use` with coordinates,
`web_interaction` with marks. The argument `action` names the action; that name may differ between
the modes, and a mode may lack an action (`verbs`). The struct's fields are the other arguments, and
their types say what is allowed and describe it. Schemas, reading and writing (`tool_calls`) are
derived from the structs, so a new action is a new class and nothing else.
"""

from types import MappingProxyType

from webgym.actions.base import (
    FULL_SCALE,
    TOOLS,
    Action,
    ActionError,
    Direction,
    FileName,
    Keys,
    Mark,
    Offset,
    Option,
    Point,
    PressEnter,
    TabNumber,
    Target,
    Text,
    Time,
    ToolCall,
    UpOrDown,
    Url,
    Value,
    Viewport,
    at_target,
    both,
    quoted,
    shorten_line,
)
from webgym.browser.contract.commands import (
    Back,
    ClickCoords,
    ClickId,
    CloseTab,
    Command,
    DragCoords,
    DragId,
    FillCoords,
    FillId,
    HoverAndScrollCoords,
    HoverCoords,
    HoverId,
    Keypress,
    PageDown,
    PageUp,
    ScrollId,
    SelectOption,
    SelectOptionCoords,
    Sleep,
    SlideCoords,
    SlideId,
    SwitchTab,
    TabAndEnter,
    UploadCoords,
    UploadFile,
    UploadId,
    VisitPage,
)

__all__ = [
    "ACTIONS",
    "FULL_SCALE",
    "TOOLS",
    "Action",
    "ActionError",
    "Click",
    "CloseCurrentTab",
    "DoubleClick",
    "Drag",
    "DragBy",
    "GiveAnswer",
    "GoBack",
    "Hover",
    "HoverAndScroll",
    "Mark",
    "Navigate",
    "Point",
    "PressKeys",
    "RightClick",
    "Scroll",
    "Select",
    "Slide",
    "SwitchToTab",
    "TabThenEnter",
    "Target",
    "ToolCall",
    "Type",
    "Upload",
    "Viewport",
    "Wait",
]


class Click(Action, frozen=True):
    key = "click"
    meaning = "click there with the left mouse button"
    verbs = MappingProxyType({"coordinates": "left_click", "set_of_marks": "click"})
    target: Target

    def __str__(self) -> str:
        return f"click on {self.target}"

    def to_command(self, viewport: Viewport) -> Command:
        return at_target(self.target, viewport, ClickId, ClickCoords)


class Hover(Action, frozen=True):
    key = "hover"
    meaning = "move the mouse there without clicking"
    verbs = both("hover")
    target: Target

    def __str__(self) -> str:
        return f"hover over {self.target}"

    def to_command(self, viewport: Viewport) -> Command:
        return at_target(self.target, viewport, HoverId, HoverCoords)


class Type(Action, frozen=True):
    key = "type"
    meaning = "click on a field, replace what it holds by the text, and press Enter"
    verbs = both("type")
    target: Target
    text: Text
    press_enter: PressEnter | None = None

    def __str__(self) -> str:
        typed = f"type {quoted(self.text)} into {self.target}"
        return f"{typed} without Enter" if self.press_enter is False else typed

    def to_command(self, viewport: Viewport) -> Command:
        enter = self.press_enter is not False
        return at_target(
            self.target,
            viewport,
            FillId,
            FillCoords,
            self.text,
            press_enter=enter,
            delete_existing=True,
        )


class Scroll(Action, frozen=True):
    key = "scroll"
    meaning = "scroll the page by nearly a screen, up or down"
    verbs = both("scroll")
    direction: UpOrDown

    def __str__(self) -> str:
        return f"scroll {self.direction}"

    def to_command(self, viewport: Viewport) -> Command:
        kind = PageDown if self.direction == "down" else PageUp
        return kind(full_page=True)


class HoverAndScroll(Action, frozen=True):
    key = "hover_and_scroll"
    meaning = "turn the mouse wheel there, to scroll a part of the page that scrolls by itself"
    verbs = both("hover_and_scroll")
    target: Target
    direction: Direction

    def __str__(self) -> str:
        return f"scroll {self.direction} over {self.target}"

    def to_command(self, viewport: Viewport) -> Command:
        return at_target(self.target, viewport, ScrollId, HoverAndScrollCoords, self.direction)


class Select(Action, frozen=True):
    """A list at a point needs the option; among marks, an option has its own number."""

    key = "select"
    meaning = "choose an option of a drop-down list"
    verbs = both("select")
    needs_with_coordinates = frozenset({"option"})
    target: Target
    option: Option | None = None

    def __str__(self) -> str:
        if self.option is None:
            return f"select {self.target}"
        return f"select {quoted(self.option)} in {self.target}"

    def to_command(self, viewport: Viewport) -> Command:
        if isinstance(self.target, Mark):
            return SelectOption(self.target.id, self.option)
        return SelectOptionCoords(*self.target.pixel(viewport), self.option or "")


class PressKeys(Action, frozen=True):
    key = "keypress"
    meaning = "press keys together"
    verbs = both("keypress")
    keys: Keys

    def __str__(self) -> str:
        return f"press {'+'.join(self.keys)}"

    def to_command(self, viewport: Viewport) -> Command:
        return Keypress(self.keys)


class DoubleClick(Action, frozen=True):
    key = "double_click"
    meaning = "click there twice, quickly"
    verbs = both("double_click")
    target: Target

    def __str__(self) -> str:
        return f"double-click on {self.target}"

    def to_command(self, viewport: Viewport) -> Command:
        return at_target(self.target, viewport, ClickId, ClickCoords, clicks=2)


class RightClick(Action, frozen=True):
    key = "right_click"
    meaning = "click there with the right mouse button, for the page's own menu"
    verbs = both("right_click")
    target: Target

    def __str__(self) -> str:
        return f"right-click on {self.target}"

    def to_command(self, viewport: Viewport) -> Command:
        return at_target(self.target, viewport, ClickId, ClickCoords, "right")


class Drag(Action, frozen=True):
    key = "drag"
    meaning = "press the left mouse button there, move to the second place, and release it"
    verbs = both("drag")
    target: Target
    to: Target

    def __str__(self) -> str:
        return f"drag {self.target} to {self.to}"

    def to_command(self, viewport: Viewport) -> Command:
        match self.target, self.to:
            case Mark(), Mark():
                return DragId(self.target.id, self.to.id)
            case Point(), Point():
                return DragCoords(*self.target.pixel(viewport), *self.to.pixel(viewport))
            case _:
                raise ActionError("a drag starts and ends at points, or at elements")


class DragBy(Action, frozen=True):
    key = "drag_by"
    meaning = "drag an element to a place that has no number"
    verbs = MappingProxyType({"set_of_marks": "drag_by"})
    target: Mark
    offset: Offset

    def __str__(self) -> str:
        right, down = self.offset
        return f"drag {self.target} by ({right:g}, {down:g})"

    def to_command(self, viewport: Viewport) -> Command:
        dx, dy = self.end((0, 0), viewport)
        return DragId(self.target.id, dx=dx, dy=dy)

    def end(self, start: tuple[int, int], viewport: Viewport) -> tuple[int, int]:
        """The pixel where a drag that starts at this pixel ends."""
        right, down = self.offset
        x, y = right * viewport.width / FULL_SCALE, down * viewport.height / FULL_SCALE
        return start[0] + round(x), start[1] + round(y)


class Slide(Action, frozen=True):
    key = "slide"
    meaning = "move a slider to a value"
    verbs = both("slide")
    target: Target
    value: Value

    def __str__(self) -> str:
        return f"slide {self.target} to {self.value:g}"

    def to_command(self, viewport: Viewport) -> Command:
        return at_target(self.target, viewport, SlideId, SlideCoords, self.value)


class Upload(Action, frozen=True):
    key = "upload"
    meaning = "choose one of the task's files in a field or with a button for files"
    verbs = both("upload")
    target: Target
    file: FileName

    def __str__(self) -> str:
        return f"upload {quoted(self.file)} at {self.target}"

    def to_command(self, viewport: Viewport) -> Command:
        files = (UploadFile(self.file),)
        return at_target(self.target, viewport, UploadId, UploadCoords, files)


class SwitchToTab(Action, frozen=True):
    key = "switch_tab"
    meaning = "continue in another tab"
    verbs = both("switch_tab")
    tab: TabNumber

    def __str__(self) -> str:
        return f"switch to tab {self.tab}"

    def to_command(self, viewport: Viewport) -> Command:
        return SwitchTab(self.tab)


class CloseCurrentTab(Action, frozen=True):
    key = "close_tab"
    meaning = "close the current tab"
    verbs = both("close_tab")

    def __str__(self) -> str:
        return "close the tab"

    def to_command(self, viewport: Viewport) -> Command:
        return CloseTab()


class Wait(Action, frozen=True):
    key = "wait"
    meaning = "wait for the page to change"
    verbs = both("wait")
    time: Time

    def __str__(self) -> str:
        return f"wait for {self.time:g} s"

    def to_command(self, viewport: Viewport) -> Command:
        return Sleep(self.time)


class GoBack(Action, frozen=True):
    key = "goback"
    meaning = "go back to the page before"
    verbs = both("go_back")

    def __str__(self) -> str:
        return "go back"

    def to_command(self, viewport: Viewport) -> Command:
        return Back()


class TabThenEnter(Action, frozen=True):
    key = "tabandenter"
    meaning = "press Tab, then Enter"
    verbs = both("tab_and_enter")

    def __str__(self) -> str:
        return "press Tab, then Enter"

    def to_command(self, viewport: Viewport) -> Command:
        return TabAndEnter()


class Navigate(Action, frozen=True):
    key = "navigate"
    meaning = "open an address"
    verbs = both("navigate")
    url: Url

    def __str__(self) -> str:
        return f"open {shorten_line(self.url)}"

    def to_command(self, viewport: Viewport) -> Command:
        return VisitPage(self.url)


class GiveAnswer(Action, frozen=True):
    key = "answer"
    meaning = "give the final answer, which ends the task"
    verbs = both("answer")
    text: Text

    def __str__(self) -> str:
        return f"answer {quoted(self.text)}"

    def to_command(self, viewport: Viewport) -> None:
        return None


ACTIONS: dict[str, type[Action]] = {kind.key: kind for kind in Action.__subclasses__()}
