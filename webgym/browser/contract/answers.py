"""The answers of the browser server, typed on both sides of the wire."""

from base64 import b64encode
from typing import Annotated, Literal

import msgspec

from webgym.browser.contract.commands import InteractionMode

ImageFormat = Literal["png", "jpeg", "webp"]
VIEWPORT_WIDTH = 1280
VIEWPORT_HEIGHT = 768


class Lease(msgspec.Struct, frozen=True):
    """A session that a client got. `node` is the node that runs it."""

    instance_id: str
    node: str


class Box(msgspec.Struct, frozen=True):
    """A rectangle in pixels of the viewport. It may lie outside, if the page has to be scrolled."""

    x: float
    y: float
    width: float
    height: float


class Option(msgspec.Struct, frozen=True):
    """One entry of a drop-down list."""

    id: int
    text: str
    value: str
    selected: bool = False


class Element(msgspec.Struct, frozen=True, omit_defaults=True):
    """An interactive element of the page. `text` is its visible text."""

    id: int
    tag: str
    role: str
    name: str
    text: str
    box: Box
    in_view: bool = True
    type: str | None = None
    value: str | None = None
    placeholder: str | None = None
    href: str | None = None
    checked: bool | None = None
    expanded: bool | None = None
    disabled: bool = False
    editable: bool = False
    focused: bool = False
    scrollable: bool = False
    options: tuple[Option, ...] = ()


def region_of(element: Element) -> dict[str, object]:
    """An element as a region: its fields, and beside them the names that other clients read."""
    box = element.box
    rect = {
        **msgspec.structs.asdict(box),
        "left": box.x,
        "top": box.y,
        "right": box.x + box.width,
        "bottom": box.y + box.height,
    }
    return {
        **msgspec.to_builtins(element),
        "tag_name": element.tag,
        "aria_name": element.name,
        "v-scrollable": element.scrollable,
        "rects": [rect],
    }


def regions_of(elements: tuple[Element, ...]) -> dict[str, object]:
    """Elements by their ids."""
    return {str(element.id): region_of(element) for element in elements}


def screenshot_info(page: "PageInfo", elements: tuple[Element, ...]) -> dict[str, object]:
    """What a screenshot shows, in our names and in those that other clients read.

    Ids are text there. `id_mapping` is from the number on the screenshot to the id of the element;
    these do not differ here.
    """
    hidden = [element for element in elements if not element.in_view]
    above = [each for each in hidden if each.box.y + each.box.height <= 0]
    return {
        "page": msgspec.to_builtins(page),
        "elements": msgspec.to_builtins(elements),
        "visible_rects": [str(element.id) for element in elements if element.in_view],
        "rects_above": [str(element.id) for element in above],
        "rects_below": [str(element.id) for element in hidden if element not in above],
        "id_mapping": {str(element.id): str(element.id) for element in elements},
        "interactive_regions": regions_of(elements),
    }


class OpenTab(msgspec.Struct, frozen=True, omit_defaults=True):
    """A tab of a session. It keeps its number until it is closed."""

    number: int
    url: str
    title: str = ""
    current: bool = False


class PageInfo(msgspec.Struct, frozen=True):
    """The state of the page. `status` is the HTTP status of the document, if it has one.

    `tab_list` has the tabs if there are several.
    """

    url: str
    title: str
    width: int = VIEWPORT_WIDTH
    height: int = VIEWPORT_HEIGHT
    scroll_x: float = 0
    scroll_y: float = 0
    page_width: float = VIEWPORT_WIDTH
    page_height: float = VIEWPORT_HEIGHT
    tabs: int = 1
    status: int | None = None
    loading: bool = False
    tab_list: tuple[OpenTab, ...] = ()


class Picture(msgspec.Struct, frozen=True):
    """A screenshot. `data` is base64 on the wire."""

    media_type: str
    data: bytes

    @property
    def data_url(self) -> str:
        return f"data:{self.media_type};base64,{b64encode(self.data).decode()}"


class DownloadedFile(msgspec.Struct, frozen=True):
    """A file that the page downloaded. `data` is base64 on the wire."""

    name: str
    url: str
    data: bytes


class Incident(msgspec.Struct, frozen=True):
    """An event of the session besides the result of the command."""

    kind: Literal["dialog", "new_tab", "tab_closed", "download", "refused", "crash", "limit"]
    detail: str


class CommandFailure(msgspec.Struct, frozen=True):
    """Why a command was not carried out. The session continues."""

    type: str
    message: str


class Observe(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the answer of a step includes. `elements` None means: if the mode is set-of-marks.

    `screenshot` None leaves the screenshot out.
    """

    interaction_mode: InteractionMode = "coordinates"
    screenshot: ImageFormat | None = "png"
    quality: Annotated[int, msgspec.Meta(ge=0, le=100)] = 80
    elements: bool | None = None
    tree: bool = False

    @property
    def wants_elements(self) -> bool:
        marks = self.interaction_mode == "set_of_marks"
        return marks if self.elements is None else self.elements


class StepAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """The result of one step.

    `settled` is False if the page was still busy at the end of the wait. `timings` are the seconds
    of each phase.
    """

    page: PageInfo
    result: dict[str, object]
    error: CommandFailure | None = None
    screenshot: Picture | None = None
    elements: tuple[Element, ...] | None = None
    tree: str | None = None
    incidents: tuple[Incident, ...] = ()
    downloads: tuple[DownloadedFile, ...] = ()
    settled: bool = True
    timings: dict[str, float] = {}


class NodeInfo(msgspec.Struct, frozen=True):
    """A node, as the master reports it. `hash` is the `node` of its leases."""

    url: str
    hash: str
    healthy: bool
    capacity: int
    available: int
    instances: tuple[str, ...] = ()


class ServerInfo(msgspec.Struct, frozen=True):
    """The answer of `GET /info`. `waiting` counts the requests that wait for a session."""

    nodes: tuple[NodeInfo, ...]
    waiting: int = 0
    status: str = "success"

    @property
    def available(self) -> int:
        return sum(node.available for node in self.nodes if node.healthy)
