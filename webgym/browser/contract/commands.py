"""The commands that a session carries out, each with its arguments.

On the wire a command is one key beside those of the session: `{"instance_id": …, "node": …,
"click_coords": {"x": 10, "y": 20}}`. `read_command` finds and types it; all code after this module
works with the structs. Other keys beside a command are ignored, because other clients send back the
whole answer of `POST /get`. For their sake, ids and numbers may also be given as text, and
directions in any case.
"""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

import msgspec

from rollgym.suggestions import nearest
from webgym.browser.contract.errors import BadRequestError

InteractionMode = Literal["coordinates", "set_of_marks"]
Direction = Literal["up", "down", "left", "right"]
ElementId = Annotated[int, msgspec.Meta(ge=1)]
Coordinate = Annotated[float, msgspec.Meta(ge=0, le=100_000)]
Distance = Annotated[float, msgspec.Meta(ge=-100_000, le=100_000)]
Text = Annotated[str, msgspec.Meta(max_length=100_000)]
MouseButton = Literal["left", "right", "middle"]
ClickCount = Annotated[int, msgspec.Meta(ge=1, le=3)]
TabNumber = Annotated[int, msgspec.Meta(ge=1)]
FILE_NAME = r"^[^/\\\x00]*[^/\\\x00.][^/\\\x00]*$"
FileName = Annotated[str, msgspec.Meta(min_length=1, max_length=200, pattern=FILE_NAME)]

LONGEST_SLEEP, LONGEST_DEADLINE, LONGEST_WAIT = 60.0, 300.0, 600.0
SCROLL_AMOUNT = 200
_NEARLY = 0.75
"""How similar a key is to the name of a command if it was meant to be that name."""


class UploadFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file that a page gets. `data` is base64 on the wire."""

    name: FileName
    data: bytes = b""


UploadFiles = Annotated[tuple[UploadFile, ...], msgspec.Meta(min_length=1, max_length=10)]


class Command(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One command of a session."""

    command: ClassVar[str]
    acts: ClassVar[bool] = True
    """Whether it may change the page. After such a command a step waits for the page to settle."""


class VisitPage(Command, frozen=True):
    command = "visit_page"
    url: Annotated[str, msgspec.Meta(min_length=1, max_length=8_192)]


class Back(Command, frozen=True):
    command = "back"


class ClickCoords(Command, frozen=True, omit_defaults=True):
    """Click there. `clicks` is 2 for a double click."""

    command = "click_coords"
    x: Coordinate
    y: Coordinate
    button: MouseButton = "left"
    clicks: ClickCount = 1


class ClickId(Command, frozen=True, omit_defaults=True):
    command = "click_id"
    id: ElementId
    button: MouseButton = "left"
    clicks: ClickCount = 1


class DragCoords(Command, frozen=True):
    """Press the left button at one point, move to another one, and release it there."""

    command = "drag_coords"
    x: Coordinate
    y: Coordinate
    to_x: Coordinate
    to_y: Coordinate


class DragId(Command, frozen=True):
    """Drag an element: to the element `to_id`, or by `dx`, `dy` pixels."""

    command = "drag_id"
    id: ElementId
    to_id: ElementId | None = None
    dx: Distance | None = None
    dy: Distance | None = None

    def __post_init__(self) -> None:
        if (self.to_id is None) == (self.dx is None and self.dy is None):
            raise ValueError("give `to_id`, or `dx` and `dy`")


class FillCoords(Command, frozen=True):
    """Click there, then type. `delete_existing` replaces the content of the field."""

    command = "fill_coords"
    x: Coordinate
    y: Coordinate
    value: Text
    press_enter: bool = True
    delete_existing: bool = False


class FillId(Command, frozen=True):
    command = "fill_id"
    id: ElementId
    value: Text
    press_enter: bool = True
    delete_existing: bool = False


class SelectOption(Command, frozen=True):
    """Choose an option by its own id, or an option of the list `id` by its `value` or label."""

    command = "select_option"
    id: ElementId
    value: Text | None = None


class SelectOptionCoords(Command, frozen=True):
    """Choose an option of the list at this point by its `value` or label."""

    command = "select_option_coords"
    x: Coordinate
    y: Coordinate
    value: Text


class SlideCoords(Command, frozen=True):
    """Move the slider at this point to a value."""

    command = "slide_coords"
    x: Coordinate
    y: Coordinate
    value: float


class SlideId(Command, frozen=True):
    command = "slide_id"
    id: ElementId
    value: float


class UploadCoords(Command, frozen=True):
    """Click there, and give these files to the file dialog that opens."""

    command = "upload_coords"
    x: Coordinate
    y: Coordinate
    files: UploadFiles


class UploadId(Command, frozen=True):
    command = "upload_id"
    id: ElementId
    files: UploadFiles


class HoverCoords(Command, frozen=True):
    command = "hover_coords"
    x: Coordinate
    y: Coordinate


class HoverId(Command, frozen=True):
    command = "hover_id"
    id: ElementId


class HoverAndScrollCoords(Command, frozen=True):
    """Turn the mouse wheel over this point, which scrolls the area there."""

    command = "hover_and_scroll_coords"
    x: Coordinate
    y: Coordinate
    direction: Direction = "down"


class ScrollId(Command, frozen=True):
    command = "scroll_id"
    id: ElementId
    direction: Direction


class PageDown(Command, frozen=True):
    """Scroll the page by `amount` pixels, or with `full_page` by nearly a screen."""

    command = "page_down"
    amount: Annotated[int, msgspec.Meta(ge=1, le=100_000)] = SCROLL_AMOUNT
    full_page: bool = False


class PageUp(Command, frozen=True):
    command = "page_up"
    amount: Annotated[int, msgspec.Meta(ge=1, le=100_000)] = SCROLL_AMOUNT
    full_page: bool = False


class Keypress(Command, frozen=True):
    """Press these keys together, such as `["Control", "a"]` or `["Enter"]`."""

    command = "keypress"
    keys: Annotated[tuple[str, ...], msgspec.Meta(min_length=1, max_length=8)]


class SwitchTab(Command, frozen=True):
    """Continue in another tab, by its number in `page.tab_list`."""

    command = "switch_tab"
    tab: TabNumber


class CloseTab(Command, frozen=True):
    """Close a tab; without a number the current one."""

    command = "close_tab"
    tab: TabNumber | None = None


class Sleep(Command, frozen=True):
    command = "sleep"
    duration: Annotated[float, msgspec.Meta(ge=0, le=LONGEST_SLEEP)] = 1.0


class TabAndEnter(Command, frozen=True):
    command = "tab_and_enter"


class GetWebpageText(Command, frozen=True):
    command = "get_webpage_text"
    acts = False
    n_lines: Annotated[int, msgspec.Meta(ge=1, le=100_000)] = 100


class GetPageMetadata(Command, frozen=True):
    command = "get_page_metadata"
    acts = False


class GetInteractiveRects(Command, frozen=True):
    command = "get_interactive_rects"
    acts = False


class GetAccessibilityTree(Command, frozen=True):
    command = "get_accessibility_tree"
    acts = False


class GetScreenshotInfo(Command, frozen=True):
    """The elements of the last screenshot and their positions."""

    command = "get_screenshot_info"
    acts = False


class Screenshot(Command, frozen=True):
    command = "screenshot"
    acts = False
    interaction_mode: InteractionMode = "set_of_marks"


COMMANDS: dict[str, type[Command]] = {kind.command: kind for kind in Command.__subclasses__()}
OTHER_NAMES = {"scroll_coords": HoverAndScrollCoords.command}
"""Names that other clients use for a command."""


def read_command(body: Mapping[str, object], besides: frozenset[str] = frozenset()) -> Command:
    """The command in a body. Raises BadRequestError, which names the mistake."""
    command = read_optional_command(body, besides)
    if command is None:
        raise BadRequestError(f"no command: give one of {', '.join(COMMANDS)}")
    return command


def read_optional_command(
    body: Mapping[str, object], besides: frozenset[str] = frozenset()
) -> Command | None:
    """The command in a body, if there is one. `besides` are further keys that are not commands."""
    names = [name for name in body if OTHER_NAMES.get(name, name) in COMMANDS]
    if len(names) > 1:
        raise BadRequestError(f"give one command at a time, not {', '.join(sorted(names)[:5])}")
    if not names:
        _check_no_unknown_command(body, besides)
        return None
    name = names[0]
    try:
        return msgspec.convert(
            _arguments(body[name]), COMMANDS[OTHER_NAMES.get(name, name)], strict=False
        )
    except msgspec.ValidationError as error:
        raise BadRequestError(f"{name}: {error}") from error


def _check_no_unknown_command(body: Mapping[str, object], besides: frozenset[str]) -> None:
    """A key that looks like a command is not ignored: it has arguments, or nearly the name."""
    for name, value in body.items():
        near = nearest(name, COMMANDS, _NEARLY)
        if name not in besides and (near or isinstance(value, dict)):
            hint = f"did you mean {near}?" if near else f"the commands are {', '.join(COMMANDS)}"
            raise BadRequestError(f"unknown command {name[:60]!r}: {hint}")


def _arguments(given: object) -> object:
    if isinstance(given, dict) and isinstance(direction := given.get("direction"), str):
        return {**given, "direction": direction.strip().lower()}
    return given or {}
