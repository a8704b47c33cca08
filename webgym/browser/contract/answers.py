"""What the browser server answers: typed on both sides of the wire."""

from typing import Annotated, Literal

import msgspec

from webgym.browser.contract.commands import InteractionMode

ImageFormat = Literal["png", "jpeg", "webp"]
VIEWPORT_WIDTH = 1280
VIEWPORT_HEIGHT = 768


class Lease(msgspec.Struct, frozen=True):
    """A session that was handed out. `node` says where it lives."""

    instance_id: str
    node: str


class Box(msgspec.Struct, frozen=True):
    """A rectangle in pixels of the viewport; what is scrolled away has coordinates outside it."""

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
    """Something on the page that can be acted on. `text` is what a person reads on it."""

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


class PageInfo(msgspec.Struct, frozen=True):
    """The page as it is now. `status` is that of the document's HTTP answer, if it had one."""

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


class Picture(msgspec.Struct, frozen=True):
    """A screenshot. `data` is base64 on the wire."""

    media_type: str
    data: bytes


class Incident(msgspec.Struct, frozen=True):
    """Something that happened to the session beside what was asked for."""

    kind: Literal["dialog", "new_tab", "tab_closed", "download", "refused", "crash", "limit"]
    detail: str


class Problem(msgspec.Struct, frozen=True):
    """Why a command was not carried out; the session goes on."""

    type: str
    message: str


class Observe(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a step answers with. `elements` None: where the mode is set-of-marks.

    `screenshot` None leaves it out.
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
    """What one step led to.

    `settled` is False where the page was still busy when the bound for waiting was reached.
    `timings` are seconds of the phases.
    """

    page: PageInfo
    result: dict[str, object]
    error: Problem | None = None
    screenshot: Picture | None = None
    elements: tuple[Element, ...] | None = None
    tree: str | None = None
    incidents: tuple[Incident, ...] = ()
    settled: bool = True
    timings: dict[str, float] = {}


class NodeInfo(msgspec.Struct, frozen=True):
    """A node as the master sees it. `hash` is what leases call `node`."""

    url: str
    hash: str
    healthy: bool
    capacity: int
    available: int
    instances: tuple[str, ...] = ()
