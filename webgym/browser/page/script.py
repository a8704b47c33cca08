"""Our script inside the page, called from here with types on both sides.

The sources in `scripts/` form one expression that evaluates to an object of functions. It is
evaluated once for each document, in an isolated world of the main frame: it sees the page's DOM,
while the page sees neither it nor what it remembers (the numbers of elements). `PageScript` only
knows an `Evaluator` that calls a function of that object; how that travels is the tab's affair.

All functions answer with JSON text, except `MARKED_ELEMENTS`: it answers with the elements that
the last marks were drawn on, themselves, so that the browser can be asked for their nodes.
"""

from collections.abc import Callable
from importlib.resources import files
from typing import Protocol, TypeVar

import msgspec

from webgym.browser.contract.answers import Element, PageInfo
from webgym.browser.contract.commands import Direction
from webgym.browser.page.elements import (
    Choice,
    Facts,
    Located,
    Met,
    Movement,
    Place,
    Selected,
    Selection,
    SpecialValue,
    Stillness,
)
from webgym.browser.page.tree import Outline

MARKED_ELEMENTS = "markedElements"
_PARTS = (
    *(
        "dom",
        "ids",
        "geometry",
        "hits",
        "names",
        "describe",
        "telling",
        "overlays",
        "survey",
        "collect",
        "locate",
    ),
    *("fields", "selects", "scroll", "marks", "reading", "outline", "quiet", "api"),
)

Answer = TypeVar("Answer")


def _read_source() -> str:
    folder = files("webgym.browser.page") / "scripts"
    parts = [(folder / f"{part}.js").read_text("utf-8") for part in _PARTS]
    return '(() => {\n"use strict";\n' + "\n".join(parts) + "})()"


SOURCE = _read_source()
"""The expression to evaluate once in each document."""

_READ_ELEMENTS = msgspec.json.Decoder(tuple[Element, ...]).decode
_READ_LENGTH = msgspec.json.Decoder(float).decode
_READ_NUMBER = msgspec.json.Decoder(int).decode
_READ_FLAG = msgspec.json.Decoder(bool).decode
_READ_LOCATED = msgspec.json.Decoder(Located).decode
_READ_MET = msgspec.json.Decoder(Met).decode
_READ_SELECTION = msgspec.json.Decoder(Selection).decode
_READ_SELECTED = msgspec.json.Decoder(Selected).decode
_READ_SPECIAL_VALUE = msgspec.json.Decoder(SpecialValue).decode
_READ_MOVEMENT = msgspec.json.Decoder(Movement).decode
_READ_PAGE_INFO = msgspec.json.Decoder(PageInfo).decode
_READ_LINES = msgspec.json.Decoder(list[str]).decode
_READ_METADATA = msgspec.json.Decoder(dict[str, object]).decode
_READ_OUTLINE = msgspec.json.Decoder(Outline).decode
_READ_STILLNESS = msgspec.json.Decoder(Stillness).decode


class Evaluator(Protocol):
    """Calls a function of our object in the page and gives its answer back as plain data.

    With `wait` the answer is a promise to be awaited. Raises TimeoutError at the deadline.
    """

    async def evaluate(
        self, function: str, arguments: list[object], deadline: float, *, wait: bool = False
    ) -> object: ...


class PageScript:
    """The functions of our script in one tab. Deadlines are absolute times of the event loop.

    Coordinates are those of the page's viewport, also for what lies in frames.
    """

    def __init__(self, evaluator: Evaluator) -> None:
        self._evaluator = evaluator

    async def collect(self, deadline: float) -> tuple[Element, ...]:
        """All that can be acted on: first what is in view, then some of what is not."""
        return await self._call(_READ_ELEMENTS, "collect", [], deadline)

    async def draw_marks(self, deadline: float) -> int:
        """Draw numbered boxes over the elements in view of the `collect` just before.

        Without one, collects them itself. Answers how many marks there are.
        """
        return await self._call(_READ_NUMBER, "drawMarks", [], deadline)

    async def erase_marks(self, deadline: float) -> None:
        await self._call(_READ_FLAG, "eraseMarks", [], deadline)

    async def locate(self, number: int, deadline: float) -> Place:
        """Scroll an element into view where needed and find a point that meets it.

        Raises UnknownElementError where it is gone, hidden, or covered by something else.
        """
        located = await self._call(_READ_LOCATED, "locate", [number], deadline)
        return located.place(number)

    async def at(self, x: float, y: float, deadline: float) -> Facts | None:
        """What a click at a point would act on."""
        return (await self._call(_READ_MET, "at", [x, y], deadline)).facts

    async def prepare_click(self, x: float, y: float, deadline: float) -> Facts | None:
        """The same; and a drop-down list there will open inside the page, where it can be seen."""
        return (await self._call(_READ_MET, "prepareClick", [x, y], deadline)).facts

    async def select_option(self, number: int, value: str | None, deadline: float) -> Choice:
        """Choose an option by its own number, or one of a list by value or label.

        Raises UnknownElementError, and CommandError that names the options there are.
        """
        answer = await self._call(_READ_SELECTION, "selectOption", [number, value], deadline)
        return answer.choice(number, value)

    async def focus_for_typing(
        self,
        deadline: float,
        *,
        number: int | None = None,
        point: tuple[float, float] | None = None,
    ) -> Facts | None:
        """What will receive keys after a click; the field that the click meant gets the focus."""
        x, y = point if point is not None else (None, None)
        return (await self._call(_READ_MET, "focusForTyping", [number, x, y], deadline)).facts

    async def select_existing(self, deadline: float) -> Selected:
        """Select what the focused field holds, so that typing replaces it."""
        return await self._call(_READ_SELECTED, "selectExisting", [], deadline)

    async def set_special_value(
        self, value: str, deadline: float, *, number: int | None = None
    ) -> str:
        """Give the focused date, time, colour or range field a value; what it then holds.

        Raises CommandError that says what the field takes.
        """
        arguments: list[object] = [number, value]
        answer = await self._call(_READ_SPECIAL_VALUE, "setSpecialValue", arguments, deadline)
        return answer.accepted(value)

    async def scroll_element(self, number: int, direction: Direction, deadline: float) -> bool:
        """Scroll the area that an element is or lies in, by most of its size; whether it moved."""
        arguments: list[object] = [number, direction]
        return (await self._call(_READ_MOVEMENT, "scrollElement", arguments, deadline)).of(number)

    async def scroll_page(self, amount: float, deadline: float) -> bool:
        """Scroll the page, or where it cannot, its largest area in view; whether it moved."""
        return (await self._call(_READ_MOVEMENT, "scrollPage", [amount], deadline)).moved

    async def wheel_distance(
        self, x: float, y: float, direction: Direction, usual: float, deadline: float
    ) -> float:
        """How many pixels to turn the wheel by at a point: at most most of what scrolls there."""
        arguments: list[object] = [x, y, direction, usual]
        return await self._call(_READ_LENGTH, "wheelDistance", arguments, deadline)

    async def page_info(self, deadline: float) -> PageInfo:
        """The page as its document knows it; tabs and status are for the tab to add."""
        return await self._call(_READ_PAGE_INFO, "pageInfo", [], deadline)

    async def text(self, line_limit: int, deadline: float) -> str:
        """What can be read on the page, frames and shadow roots included, without empty lines."""
        return "\n".join(await self._call(_READ_LINES, "text", [line_limit], deadline))

    async def metadata(self, deadline: float) -> dict[str, object]:
        """What the page says about itself: title, url, language, description, headings, …"""
        return await self._call(_READ_METADATA, "metadata", [], deadline)

    async def outline(self, deadline: float) -> Outline:
        """A tree of roles and names, bounded whatever the size of the page.

        Its nodes have the numbers of the marks that the last `collect` gave, where they have any.
        """
        return await self._call(_READ_OUTLINE, "outline", [], deadline)

    async def quiet(self, quiet_seconds: float, limit_seconds: float, deadline: float) -> bool:
        """Wait until nothing has changed for a while; whether that came before the limit."""
        arguments: list[object] = [quiet_seconds * 1000, limit_seconds * 1000]
        answer = await self._call(_READ_STILLNESS, "quiet", arguments, deadline, wait=True)
        return answer.quiet

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
