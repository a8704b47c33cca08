"""Our script inside the page, called with types on both sides.

The sources in `scripts/` form one expression that evaluates to an object of functions. It is
evaluated once for each document, in an isolated world of the main frame: it sees the DOM of the
page, while the page sees neither it nor its state (the numbers of elements). Chromium gets the
sources once for each tab (`PREPARED`), and compiles them in a document when they are needed, so
that they are not sent and parsed again for each document. `PageScript` calls the functions through
a `ScriptEvaluator`; the tab provides the transport.

All functions answer with JSON text, except `NUMBERED_ELEMENTS`: it answers with elements
themselves, so that the browser can be asked for their nodes.

*Frames of another origin* cannot be read from the main frame: each has a script of its own. A
function whose target is in such a frame answers with a `FrameSpot`, and is called again there. The
elements of such a frame get numbers of the page (`adopt`), which the evaluator keeps in `adopted`.
"""

import contextlib
from collections.abc import Callable
from importlib.resources import files
from typing import Literal, Protocol, TypeVar

import msgspec

from webgym.browser.contract.answers import Element, PageInfo
from webgym.browser.contract.commands import Direction
from webgym.browser.page.early import CHANNEL
from webgym.browser.page.elements import (
    Area,
    CopiedText,
    DocumentGoneError,
    ElementFacts,
    FramePart,
    FrameSpot,
    LocatedElement,
    OptionSelection,
    Outline,
    PageScriptError,
    Quietness,
    SetValueResult,
    SliderState,
    StepStart,
    gone,
)

NUMBERED_ELEMENTS = "numberedElements"
FRAME_LINE = "\0"
"""Begins a line of text that stands for a frame; its number follows."""
_IN_FRAME = '{"frame":'
_PARTS = (
    "early", "dom", "ids", "geometry", "hits", "names", "describe", "interactive", "overlays",
    "survey", "collect", "foreign", "locate", "fields", "selects", "sliders", "clipboard", "scroll",
    "marks", "reading", "outline", "quiet", "api",
)  # fmt: skip

Answer = TypeVar("Answer")


def _read_source() -> str:
    folder = files("webgym.browser.page") / "scripts"
    parts = [(folder / f"{part}.js").read_text("utf-8") for part in _PARTS]
    channel = f'const CHANNEL = "{CHANNEL}";'
    return f'(() => {{\n"use strict";\n{channel}\n' + "\n".join(parts) + "})()"


SOURCE = _read_source()
"""The expression to evaluate once in each document."""
LOADER = "loadScript"
PREPARED = f"globalThis.{LOADER} = (() => {SOURCE})"
"""Prepares the world of our script in a new document: `LOADER` there evaluates `SOURCE`.

The parentheses make V8 compile the function at once; without them it reads the sources twice.
"""

_READ_ADOPTED = msgspec.json.Decoder(list[int | None]).decode
_READ_ELEMENTS = msgspec.json.Decoder(tuple[Element, ...]).decode
_READ_FACTS = msgspec.json.Decoder(ElementFacts | None).decode
_READ_FLAG = msgspec.json.Decoder(bool).decode
_READ_FRAME = msgspec.json.Decoder(FramePart).decode
_READ_FRAMES = msgspec.json.Decoder(tuple[FramePart, ...]).decode
_READ_LENGTH = msgspec.json.Decoder(float).decode
_READ_LINES = msgspec.json.Decoder(list[str]).decode
_READ_LOCATED = msgspec.json.Decoder(LocatedElement).decode
_READ_MARKS = msgspec.json.Decoder(list[dict[str, object]]).decode
_READ_METADATA = msgspec.json.Decoder(dict[str, object]).decode
_READ_MOVED = msgspec.json.Decoder(bool | None).decode
_READ_NOTHING = msgspec.json.Decoder(None).decode
_READ_OUTLINE = msgspec.json.Decoder(Outline).decode
_READ_PAGE_INFO = msgspec.json.Decoder(PageInfo).decode
_READ_QUIETNESS = msgspec.json.Decoder(Quietness).decode
_READ_SELECTION = msgspec.json.Decoder(OptionSelection).decode
_READ_SPOT = msgspec.json.Decoder(FrameSpot).decode
_READ_COPIED = msgspec.json.Decoder(CopiedText).decode
_READ_SLIDER = msgspec.json.Decoder(SliderState | None).decode
_READ_SET_VALUE = msgspec.json.Decoder(SetValueResult).decode


class ScriptEvaluator(Protocol):
    """Calls a function of our object in the page and returns its answer as plain data.

    With `wait` the answer is a promise that is awaited. Raises TimeoutError at the deadline, and
    DocumentGoneError if the document is gone. `adopted` has the frame and the number there of each
    element that is in a frame of another origin.
    """

    adopted: dict[int, tuple[int, int]]

    async def evaluate(
        self, function: str, arguments: list[object], deadline: float, *, wait: bool = False
    ) -> object: ...

    async def frame(self, number: int, deadline: float) -> "ScriptEvaluator":
        """The evaluator of the frame whose element has this number."""
        ...


class PageScript:
    """The functions of our script in one tab. Deadlines are absolute times of the event loop.

    Coordinates refer to the viewport of the page, also for elements in frames.
    """

    def __init__(self, evaluator: ScriptEvaluator) -> None:
        self._evaluator = evaluator

    async def collect(self, deadline: float, area: Area | None = None) -> tuple[Element, ...]:
        """The interactive elements: first all in view, then some of the others.

        `area` is the visible part of a document that is a frame.
        """
        elements = await self._call(_READ_ELEMENTS, "collect", [area], deadline)
        if not any(element.tag in {"iframe", "frame"} for element in elements):
            return elements
        for part in await self._call(_READ_FRAMES, "foreignFrames", [], deadline):
            with contextlib.suppress(DocumentGoneError, PageScriptError):
                inner = await self._adopt(part, deadline)
                if inner:
                    elements = tuple(each for each in elements if each.id != part.frame) + inner
        return elements

    async def _adopt(self, part: FramePart, deadline: float) -> tuple[Element, ...]:
        """The elements of a frame of another origin, with numbers and positions of this page."""
        evaluator = await self._evaluator.frame(part.frame, deadline)
        script = PageScript(evaluator)
        found = [each for each in await script.collect(deadline, part.area) if each.in_view]
        marks = await script.marks(deadline)
        arguments: list[object] = [part.frame, [element.id for element in found], marks]
        numbers = await self._call(_READ_ADOPTED, "adopt", arguments, deadline)
        pairs = [
            (number, each)
            for number, each in zip(numbers, found, strict=True)
            if number is not None
        ]
        self._evaluator.adopted.update(
            {number: (part.frame, element.id) for number, element in pairs}
        )
        return tuple(part.place(element, number) for number, element in pairs)

    async def marks(self, deadline: float) -> list[dict[str, object]]:
        """The marks of the last `collect`, each with its number and its boxes."""
        return await self._call(_READ_MARKS, "marks", [], deadline)

    async def inner(self, number: int, deadline: float) -> "tuple[PageScript, int] | None":
        """The script and the number there of an element that is in a frame of another origin."""
        if number not in self._evaluator.adopted:
            return None
        frame, local = self._evaluator.adopted[number]
        try:
            return PageScript(await self._evaluator.frame(frame, deadline)), local
        except DocumentGoneError:
            raise gone(number) from None

    async def draw_marks(self, deadline: float) -> None:
        """Draw numbered boxes over the elements in view of the last `collect`.

        Collects the elements itself if necessary.
        """
        await self._call(_READ_NOTHING, "drawMarks", [], deadline)

    async def erase_marks(self, deadline: float) -> None:
        await self._call(_READ_NOTHING, "eraseMarks", [], deadline)

    async def locate(
        self, number: int, deadline: float, area: Area | None = None
    ) -> LocatedElement:
        """Scroll an element into view if necessary and find a point that hits it.

        `area` is the visible part of a document that is a frame. Raises UnknownElementError if the
        element is gone, hidden, or covered by something else.
        """
        inner = await self.inner(number, deadline)
        if inner is None:
            located = await self._call(_READ_LOCATED, "locate", [number, area], deadline)
        else:
            frame, _ = self._evaluator.adopted[number]
            part = await self._call(_READ_FRAME, "showFrame", [frame], deadline, through=False)
            inside = await inner[0].locate(inner[1], deadline, part.area)
            point: list[object] = [frame, inside.x, inside.y]
            placed = await self._call(_READ_LOCATED, "placeInFrame", point, deadline)
            located = msgspec.structs.replace(placed, facts=inside.facts)
        located.check(number)
        return located

    async def at(self, x: float, y: float, deadline: float) -> ElementFacts | None:
        """The element that a click at a point would hit."""
        return await self._call(_READ_FACTS, "at", [x, y], deadline, point_at=0)

    async def prepare_click(self, x: float, y: float, deadline: float) -> None:
        """Make a drop-down list at a point open inside the page."""
        await self._call(_READ_NOTHING, "prepareClick", [x, y], deadline, point_at=0)

    async def select_option(
        self, target: int | tuple[float, float], value: str | None, deadline: float
    ) -> OptionSelection:
        """Choose an option by its own number, or an option of a list by value or label.

        The list is the one of a number or at a point. Raises UnknownElementError, and CommandError
        that lists the options.
        """
        number, x, y = _target(target)
        inner = None if number is None else await self.inner(number, deadline)
        if inner is not None:
            return await inner[0].select_option(inner[1], value, deadline)
        chosen = await self._call(
            _READ_SELECTION, "selectOption", [number, value, x, y], deadline, point_at=2
        )
        chosen.check(target, value)
        return chosen

    async def copy_selection(self, kind: Literal["copy", "cut"], deadline: float) -> CopiedText:
        """The selected text, after an event of this kind."""
        return await self._call(_READ_COPIED, "copySelection", [kind], deadline)

    async def paste_text(self, text: str, deadline: float) -> CopiedText:
        """Offer a text to the page as an event; what it does not handle is to be typed."""
        return await self._call(_READ_COPIED, "pasteText", [text], deadline)

    async def focus_slider(
        self, target: int | tuple[float, float], deadline: float
    ) -> SliderState | None:
        """Focus the slider of a number or at a point, if it is one that a page has built."""
        number, x, y = _target(target)
        inner = None if number is None else await self.inner(number, deadline)
        if inner is not None:
            return await inner[0].focus_slider(inner[1], deadline)
        return await self._call(_READ_SLIDER, "focusSlider", [number, x, y], deadline, point_at=1)

    async def slider_state(self, deadline: float) -> SliderState | None:
        """The state of the focused slider."""
        return await self._call(_READ_SLIDER, "sliderState", [], deadline)

    async def focus_for_typing(
        self,
        deadline: float,
        *,
        number: int | None = None,
        point: tuple[float, float] | None = None,
    ) -> ElementFacts | None:
        """The element that gets typed keys after a click; focuses the clicked field."""
        inner = await self.inner(number, deadline) if number is not None else None
        if inner is not None:
            return await inner[0].focus_for_typing(deadline, number=inner[1])
        x, y = point if point is not None else (None, None)
        arguments: list[object] = [number, x, y]
        return await self._call(_READ_FACTS, "focusForTyping", arguments, deadline, point_at=1)

    async def select_existing(self, deadline: float) -> bool:
        """Select the content of the focused field; returns whether there is any."""
        return await self._call(_READ_FLAG, "selectExisting", [], deadline)

    async def set_special_value(self, value: str, deadline: float) -> str:
        """Set the focused date, time, colour or range field; returns its new value.

        Raises CommandError with the format that the field accepts.
        """
        answer = await self._call(_READ_SET_VALUE, "setSpecialValue", [value], deadline)
        return answer.accepted(value)

    async def scroll_element(self, number: int, direction: Direction, deadline: float) -> bool:
        """Scroll the area of an element by most of its size; returns whether it moved."""
        inner = await self.inner(number, deadline)
        if inner is not None:
            return await inner[0].scroll_element(inner[1], direction, deadline)
        moved: bool | None = await self._call(
            _READ_MOVED, "scrollElement", [number, direction], deadline
        )
        if moved is None:
            raise gone(number)
        return bool(moved)

    async def scroll_page(self, amount: float, deadline: float) -> bool:
        """Scroll the page, or its largest scrollable area in view; returns whether it moved."""
        return await self._call(_READ_FLAG, "scrollPage", [amount], deadline)

    async def wheel_distance(
        self, x: float, y: float, direction: Direction, default: float, deadline: float
    ) -> float:
        """How far to turn the wheel at a point: at most most of the size of the area there."""
        arguments: list[object] = [x, y, direction, default]
        return await self._call(_READ_LENGTH, "wheelDistance", arguments, deadline)

    async def page_info(self, deadline: float) -> PageInfo:
        """The state of the page from its document; the tab adds `tabs` and `status`."""
        return await self._call(_READ_PAGE_INFO, "pageInfo", [], deadline)

    async def text(self, line_limit: int, deadline: float) -> str:
        """The visible text of the page with frames and shadow roots, without empty lines."""
        lines: list[str] = []
        for line in await self._call(_READ_LINES, "text", [line_limit], deadline):
            if not line.startswith(FRAME_LINE):
                lines.append(line)
                continue
            with contextlib.suppress(DocumentGoneError, PageScriptError):
                frame = await self._evaluator.frame(int(line[1:]), deadline)
                lines += (await PageScript(frame).text(line_limit, deadline)).split("\n")
        return "\n".join(lines[:line_limit])

    async def metadata(self, deadline: float) -> dict[str, object]:
        """The metadata of the page: title, url, language, description, headings, …"""
        return await self._call(_READ_METADATA, "metadata", [], deadline)

    async def outline(self, deadline: float) -> Outline:
        """A tree of roles and names, bounded for a page of any size.

        Its nodes have the numbers of the marks of the last `collect`, if they have any.
        """
        return await self._call(_READ_OUTLINE, "outline", [], deadline)

    async def quiet(
        self, quiet_seconds: float, limit_seconds: float, step: StepStart, deadline: float
    ) -> Quietness:
        """Wait until nothing has changed for a while, and what began since the step has ended."""
        seconds = (quiet_seconds, limit_seconds, step.clock, step.age)
        arguments: list[object] = [each * 1000 for each in seconds]
        return await self._call(_READ_QUIETNESS, "quiet", arguments, deadline, wait=True)

    async def _call(
        self,
        read: Callable[[str], Answer],
        function: str,
        arguments: list[object],
        deadline: float,
        *,
        wait: bool = False,
        through: bool = True,
        point_at: int | None = None,
    ) -> Answer:
        """The answer of a function; with `through`, that of the frame where its target is.

        `point_at` is the index of the coordinates among the arguments.
        """
        answer = await self._evaluator.evaluate(function, arguments, deadline, wait=wait)
        if not isinstance(answer, str):
            raise TypeError(f"{function} in the page answered {type(answer).__name__}, not text")
        if not through or not answer.startswith(_IN_FRAME):
            return read(answer)
        spot = _READ_SPOT(answer)
        frame = PageScript(await self._evaluator.frame(spot.frame, deadline))
        if point_at is not None:
            before, after = arguments[:point_at], arguments[point_at + 2 :]
            arguments = [*before, spot.x, spot.y, *after]
        return await frame._call(read, function, arguments, deadline, wait=wait, point_at=point_at)


def _target(target: int | tuple[float, float]) -> tuple[int | None, float | None, float | None]:
    """A number or a point as the script takes them."""
    return (target, None, None) if isinstance(target, int) else (None, *target)
