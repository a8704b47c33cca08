"""Our script inside the page, called with types on both sides.

The sources in `scripts/` form one expression that evaluates to an object of functions. It is
evaluated once for each document, in an isolated world of the main frame: it sees the DOM of the
page, while the page sees neither it nor its state (the numbers of elements). `PageScript` calls its
functions through a `ScriptEvaluator`; the tab provides the transport.

All functions answer with JSON text, except `MARKED_ELEMENTS`: it answers with the marked elements
themselves, so that the browser can be asked for their nodes.
"""

from collections.abc import Callable
from importlib.resources import files
from typing import Protocol, TypeVar

import msgspec

from webgym.browser.contract.answers import Element, PageInfo
from webgym.browser.contract.commands import Direction
from webgym.browser.page.elements import (
    ElementFacts,
    LocatedElement,
    OptionSelection,
    Outline,
    SetValueResult,
    gone,
)

MARKED_ELEMENTS = "markedElements"
_PARTS = (
    "dom", "ids", "geometry", "hits", "names", "describe", "interactive", "overlays", "survey",
    "collect", "locate", "fields", "selects", "scroll", "marks", "reading", "outline", "quiet",
    "api",
)  # fmt: skip

Answer = TypeVar("Answer")


def _read_source() -> str:
    folder = files("webgym.browser.page") / "scripts"
    parts = [(folder / f"{part}.js").read_text("utf-8") for part in _PARTS]
    return '(() => {\n"use strict";\n' + "\n".join(parts) + "})()"


SOURCE = _read_source()
"""The expression to evaluate once in each document."""

_READ_ELEMENTS = msgspec.json.Decoder(tuple[Element, ...]).decode
_READ_FACTS = msgspec.json.Decoder(ElementFacts | None).decode
_READ_FLAG = msgspec.json.Decoder(bool).decode
_READ_LENGTH = msgspec.json.Decoder(float).decode
_READ_LINES = msgspec.json.Decoder(list[str]).decode
_READ_LOCATED = msgspec.json.Decoder(LocatedElement).decode
_READ_METADATA = msgspec.json.Decoder(dict[str, object]).decode
_READ_MOVED = msgspec.json.Decoder(bool | None).decode
_READ_NOTHING = msgspec.json.Decoder(None).decode
_READ_OUTLINE = msgspec.json.Decoder(Outline).decode
_READ_PAGE_INFO = msgspec.json.Decoder(PageInfo).decode
_READ_SELECTION = msgspec.json.Decoder(OptionSelection).decode
_READ_SET_VALUE = msgspec.json.Decoder(SetValueResult).decode


class ScriptEvaluator(Protocol):
    """Calls a function of our object in the page and returns its answer as plain data.

    With `wait` the answer is a promise that is awaited. Raises TimeoutError at the deadline.
    """

    async def evaluate(
        self, function: str, arguments: list[object], deadline: float, *, wait: bool = False
    ) -> object: ...


class PageScript:
    """The functions of our script in one tab. Deadlines are absolute times of the event loop.

    Coordinates refer to the viewport of the page, also for elements in frames.
    """

    def __init__(self, evaluator: ScriptEvaluator) -> None:
        self._evaluator = evaluator

    async def collect(self, deadline: float) -> tuple[Element, ...]:
        """The interactive elements: first all in view, then some of the others."""
        return await self._call(_READ_ELEMENTS, "collect", [], deadline)

    async def draw_marks(self, deadline: float) -> None:
        """Draw numbered boxes over the elements in view of the last `collect`.

        Collects the elements itself if necessary.
        """
        await self._call(_READ_NOTHING, "drawMarks", [], deadline)

    async def erase_marks(self, deadline: float) -> None:
        await self._call(_READ_NOTHING, "eraseMarks", [], deadline)

    async def locate(self, number: int, deadline: float) -> LocatedElement:
        """Scroll an element into view if necessary and find a point that hits it.

        Raises UnknownElementError if it is gone, hidden, or covered by something else.
        """
        located = await self._call(_READ_LOCATED, "locate", [number], deadline)
        located.check(number)
        return located

    async def at(self, x: float, y: float, deadline: float) -> ElementFacts | None:
        """The element that a click at a point would hit."""
        return await self._call(_READ_FACTS, "at", [x, y], deadline)

    async def prepare_click(self, x: float, y: float, deadline: float) -> None:
        """Make a drop-down list at a point open inside the page."""
        await self._call(_READ_NOTHING, "prepareClick", [x, y], deadline)

    async def select_option(
        self, number: int, value: str | None, deadline: float
    ) -> OptionSelection:
        """Choose an option by its own number, or an option of a list by value or label.

        Raises UnknownElementError, and CommandError that lists the options.
        """
        chosen = await self._call(_READ_SELECTION, "selectOption", [number, value], deadline)
        chosen.check(number, value)
        return chosen

    async def focus_for_typing(
        self,
        deadline: float,
        *,
        number: int | None = None,
        point: tuple[float, float] | None = None,
    ) -> ElementFacts | None:
        """The element that gets typed keys after a click; focuses the clicked field."""
        x, y = point if point is not None else (None, None)
        return await self._call(_READ_FACTS, "focusForTyping", [number, x, y], deadline)

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
        return "\n".join(await self._call(_READ_LINES, "text", [line_limit], deadline))

    async def metadata(self, deadline: float) -> dict[str, object]:
        """The metadata of the page: title, url, language, description, headings, …"""
        return await self._call(_READ_METADATA, "metadata", [], deadline)

    async def outline(self, deadline: float) -> Outline:
        """A tree of roles and names, bounded for a page of any size.

        Its nodes have the numbers of the marks of the last `collect`, if they have any.
        """
        return await self._call(_READ_OUTLINE, "outline", [], deadline)

    async def quiet(self, quiet_seconds: float, limit_seconds: float, deadline: float) -> bool:
        """Wait until nothing has changed for a while; returns whether that was before the limit."""
        arguments: list[object] = [quiet_seconds * 1000, limit_seconds * 1000]
        return await self._call(_READ_FLAG, "quiet", arguments, deadline, wait=True)

    async def _call(
        self,
        read: Callable[[str], Answer],
        function: str,
        arguments: list[object],
        deadline: float,
        *,
        wait: bool = False,
    ) -> Answer:
        answer = await self._evaluator.evaluate(function, arguments, deadline, wait=wait)
        if not isinstance(answer, str):
            raise TypeError(f"{function} in the page answered {type(answer).__name__}, not text")
        return read(answer)
