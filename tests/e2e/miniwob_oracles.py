"""Oracles for MiniWoB++ tasks: they know the pages, and act through the public client only.

An oracle has two hands that do the same. One is a session of the browser server, driven by actions
of the action space; its episode is what counts. The other is a page of Playwright with the same
task and seed, and so with the same layout: it is where the oracle reads positions and state.

`Hands` acts by coordinates. `MarkedHands` acts by marks alone, always in the middle of an element,
so it cannot do what needs a certain place inside one.
"""

import colorsys
import re
from collections.abc import Awaitable, Callable
from typing import Any

from playwright.async_api import Page

from webgym.actions.space import (
    FULL_SCALE,
    Action,
    Click,
    Drag,
    DragBy,
    Hover,
    HoverAndScroll,
    Mark,
    Point,
    PressKeys,
    Type,
    Viewport,
)
from webgym.browser.contract.answers import Box, Element, Observe
from webgym.client.client import BrowserSession

VIEWPORT = Viewport()
STEPS = 10
SCROLLS = 12
Spot = tuple[float, float]
MONTHS = 12
_SCROLL = """(area) => {
  const element = document.querySelector(area);
  element.scrollBy(0, Math.round(0.8 * element.clientHeight));
}"""
"""As a turn of the wheel scrolls a small area."""


class Hands:
    """The session that is measured, and the page that is read."""

    def __init__(self, session: BrowserSession, page: Page, instruction: str) -> None:
        self._session = session
        self._page = page
        self.instruction = instruction

    async def read(self, script: str, *arguments: object) -> Any:
        return await self._page.evaluate(f"(given) => ({script})(...given)", list(arguments))

    async def middle(self, selector: str, index: int = 0, across: float = 0.5) -> Spot:
        """The middle of an element on the page, or another point of its middle line."""
        box = await self._page.locator(selector).nth(index).bounding_box()
        assert box is not None, selector
        return box["x"] + box["width"] * across, box["y"] + box["height"] / 2

    async def click(self, spot: Spot) -> None:
        await self._act(Click(_point(spot)))
        await self._page.mouse.click(*_pixel(spot))

    async def hover(self, spot: Spot) -> None:
        await self._act(Hover(_point(spot)))
        await self._page.mouse.move(*_pixel(spot))

    async def drag(self, start: Spot, end: Spot) -> None:
        await self._act(Drag(_point(start), _point(end)))
        await self._drag_on_page(start, end)

    async def _drag_on_page(self, start: Spot, end: Spot) -> None:
        mouse = self._page.mouse
        await mouse.move(*_pixel(start))
        await mouse.down()
        await mouse.move(*_pixel(end), steps=STEPS)
        await mouse.move(*_pixel(end))
        await mouse.up()

    async def type(self, spot: Spot, text: str) -> None:
        """Without Enter."""
        await self._act(Type(_point(spot), text, press_enter=False))
        await self._type_on_page(spot, text)

    async def _type_on_page(self, spot: Spot, text: str) -> None:
        await self._page.mouse.click(*_pixel(spot))
        await self._page.keyboard.type(text)

    async def press(self, *keys: str) -> None:
        await self._act(PressKeys(keys))
        await self._page.keyboard.press("+".join(keys))

    async def show(self, area: str, selector: str, index: int = 0) -> Spot:
        """The middle of an element, after scrolling its area down until this is in view."""
        for _ in range(SCROLLS):
            box = await self._page.locator(area).first.bounding_box()
            spot = await self.middle(selector, index)
            assert box is not None, area
            if spot[1] < box["y"] + box["height"] - 2:
                return spot
            await self.scroll(area)
        raise AssertionError(f"{selector} is not in view after {SCROLLS} scrolls")

    async def scroll(self, area: str) -> None:
        spot = await self.middle(area)
        await self._act(HoverAndScroll(_point(spot), "down"))
        await self._page.evaluate(_SCROLL, area)

    async def click_on(self, selector: str, index: int = 0) -> None:
        await self.click(await self.middle(selector, index))

    async def wait_for(self, selector: str) -> None:
        await self._page.locator(selector).first.wait_for(state="visible")

    async def _act(self, action: Action) -> None:
        command = action.to_command(VIEWPORT)
        answer = await self._session.step(command, Observe(screenshot=None))
        assert answer.error is None, (str(action), answer.error)


class MarkedHands(Hands):
    """Acts on the smallest marked element at a spot."""

    async def click(self, spot: Spot) -> None:
        mark = await self._mark(spot)
        await self._act(Click(Mark(mark.id)))
        await self._page.mouse.click(*_middle(mark))

    async def hover(self, spot: Spot) -> None:
        await self._act(Hover(Mark((await self._mark(spot)).id)))
        await self._page.mouse.move(*_pixel(spot))

    async def drag(self, start: Spot, end: Spot) -> None:
        mark = await self._mark(start)
        x, y = _middle(mark)
        right, down = (end[0] - x) / VIEWPORT.width, (end[1] - y) / VIEWPORT.height
        offset = (right * FULL_SCALE, down * FULL_SCALE)
        await self._act(DragBy(Mark(mark.id), offset))
        await self._drag_on_page((x, y), end)

    async def type(self, spot: Spot, text: str) -> None:
        await self._act(Type(Mark((await self._mark(spot)).id), text, press_enter=False))
        await self._type_on_page(spot, text)

    async def scroll(self, area: str) -> None:
        mark = await self._mark(await self.middle(area))
        await self._act(HoverAndScroll(Mark(mark.id), "down"))
        await self._page.evaluate(_SCROLL, area)

    async def _mark(self, spot: Spot) -> Element:
        answer = await self._session.step(None, Observe("set_of_marks", screenshot=None))
        boxes = {each.id: each.box for each in answer.elements or ()}
        there = [each for each in answer.elements or () if _holds(each.box, spot)]
        assert there, f"no mark at {spot}: {boxes}"
        return min(there, key=lambda each: each.box.width * each.box.height)


def _holds(box: Box, spot: Spot) -> bool:
    x, y = spot
    across = box.x - 1 <= x <= box.x + box.width + 1
    return across and box.y - 1 <= y <= box.y + box.height + 1


def _middle(mark: Element) -> Spot:
    return mark.box.x + mark.box.width / 2, mark.box.y + mark.box.height / 2


def _pixel(spot: Spot) -> tuple[int, int]:
    return round(spot[0]), round(spot[1])


def _point(spot: Spot) -> Point:
    x, y = _pixel(spot)
    return Point(x * FULL_SCALE / VIEWPORT.width, y * FULL_SCALE / VIEWPORT.height)


async def drag_box(hands: Hands) -> None:
    large = await hands.middle("#draggableLarge")
    await hands.drag(await hands.middle("#draggableSmall"), large)
    await hands.click_on("#subbtn")


WAYS = {"left": (-12, 0), "right": (12, 0), "up": (0, -12), "down": (0, 12)}


async def drag_that_way(hands: Hands) -> None:
    found = re.search("left|right|up|down", hands.instruction)
    assert found
    x, y = await hands.middle("#area svg > *")
    right, down = WAYS[found[0]]
    await hands.drag((x, y), (x + right, y + down))
    await hands.click_on("#subbtn")


async def _drag_item(hands: Hands, start: int, end: int) -> None:
    """To the far half of the item at the end, so that the list makes room there."""
    (x, y), (to_x, to_y) = [await hands.middle("#sortable li", each) for each in (start, end)]
    await hands.drag((x, y), (to_x + _beyond(to_x - x), to_y + _beyond(to_y - y)))


def _beyond(distance: float) -> int:
    return 0 if abs(distance) <= 2 else 4 if distance > 0 else -4


_INNER_TEXTS = """(selector) =>
  [...document.querySelectorAll(selector)].map((element) => element.innerText.trim())"""


async def _named_item(hands: Hands) -> tuple[int, str]:
    names = await hands.read(_INNER_TEXTS, "#sortable li")
    name = hands.instruction.split()[1]
    return names.index(name), hands.instruction.partition(f"{name} ")[2]


async def drag_items(hands: Hands) -> None:
    at, where = await _named_item(hands)
    numbered = re.search(r"the (\d)", where)
    ends = {"to the top.": 0, "to the bottom.": 4, "down by one position.": at + 1}
    ends["up by one position."] = at - 1
    await _drag_item(hands, at, int(numbered[1]) - 1 if numbered else ends[where])


async def drag_items_grid(hands: Hands) -> None:
    at, where = await _named_item(hands)
    steps = {"up by one.": -3, "down by one.": 3, "left by one.": -1, "right by one.": 1}
    places = ["top left", "top center", "top right", "center left", "center", "center right",
              "bottom left", "bottom center", "bottom right"]  # fmt: skip
    place = where.removeprefix("to the ").rstrip(".")
    await _drag_item(hands, at, at + steps[where] if where in steps else places.index(place))


async def drag_sort_numbers(hands: Hands) -> None:
    for end in range(3):
        numbers = [int(text) for text in await hands.read(_INNER_TEXTS, "#sortable li")]
        start = numbers.index(min(numbers[end:]), end)
        if start != end:
            await _drag_item(hands, start, end)
    await hands.click_on("#subbtn")


_SHAPES = """() => [...document.querySelectorAll('#area_svg > *:not(#shape-container)')].map(e => {
  const { x, y, width, height } = e.getBoundingClientRect();
  return [e.tagName, e.getAttribute('fill'), x + width / 2, y + height / 2];
})"""
_TAGS = {"rectangles": "rect", "circles": "circle", "triangles": "polygon"}


async def drag_shapes(hands: Hands) -> None:
    kind = _TAGS[hands.instruction.split()[2]]
    await _place_shapes(hands, lambda tag, _: 0 if tag == kind else None)


async def drag_shapes_2(hands: Hands) -> None:
    word = hands.instruction.split()[2]
    kind = _TAGS.get(word)

    def box(tag: str, fill: str) -> int:
        return 0 if (tag == kind if kind else fill == word) else 1

    await _place_shapes(hands, box)


async def _place_shapes(hands: Hands, box: Callable[[str, str], int | None]) -> None:
    for number, (tag, fill, x, y) in enumerate(await hands.read(_SHAPES)):
        chosen = box(tag, fill)
        if chosen is not None:
            to_x, to_y = await hands.middle("#shape-container", chosen, across=0.2 + 0.12 * number)
            await hands.drag((x, y), (to_x, to_y))
    await hands.click_on("#subbtn")


async def draw_line(hands: Hands) -> None:
    x, y = await hands.middle("#circ")
    across, down = (40, 0) if "horizontal" in hands.instruction else (0, 40)
    await hands.drag((x, y), (x + across, y + down))
    await hands.click_on("#controls button")


_TEXT_ENDS = """(selector, index) => {
  const range = document.createRange();
  range.selectNodeContents(document.querySelectorAll(selector)[index]);
  const lines = range.getClientRects(), first = lines[0], last = lines[lines.length - 1];
  return [[first.left, first.top + first.height / 2], [last.right, last.top + last.height / 2]];
}"""


async def highlight_text(hands: Hands) -> None:
    found = re.search(r"the (\d)", hands.instruction)
    selector, index = ("#randomText p", int(found[1]) - 1) if found else ("#randomText", 0)
    (x, y), (to_x, to_y) = await hands.read(_TEXT_ENDS, selector, index)
    await hands.drag((x, y), (to_x + 3, to_y))
    await hands.click_on("#subbtn")


async def resize_textarea(hands: Hands) -> None:
    distance = 15 if "larger" in hands.instruction else -15
    x, y = await hands.middle(".ui-resizable-se")
    wide = "width" in hands.instruction
    await hands.drag((x, y), (x + distance * wide, y + distance * (not wide)))
    await hands.click_on("#submit")


_INNER_TEXT = "(selector) => document.querySelector(selector).innerText"


async def use_sliders(hands: Hands) -> None:
    wanted = [int(number) for number in re.findall(r"-?\d+", hands.instruction)]
    for index, value in enumerate(wanted):
        shown = "#val" if len(wanted) == 1 else f"#val-{index + 1}"
        await _slide(hands, value, shown, index)
    await hands.click_on("#subbtn")


async def _slide(hands: Hands, value: int, shown: str = "#val", index: int = 0) -> None:
    await hands.click_on(".ui-slider-handle", index)
    while (now := int(await hands.read(_INNER_TEXT, shown))) != value:
        await hands.press("ArrowRight" if now < value else "ArrowLeft")


async def form_sequence(hands: Hands) -> None:
    value, place = re.findall(r"-?\d+", hands.instruction)
    await _slide(hands, int(value))
    await hands.click_on(f"#checkbox-{place}")
    await hands.click_on("#subbtn")


async def form_sequence_2(hands: Hands) -> None:
    radio, number, place = re.findall(r"-?\d+", hands.instruction)
    await hands.click_on("input[type=radio]", int(radio) - 1)
    await hands.type(await hands.middle(f"#input-{place}"), number)
    await hands.click_on("#subbtn")


async def form_sequence_3(hands: Hands) -> None:
    found = re.fullmatch(r'Choose (.*) from the .* labeled "(.*)"\.', hands.instruction)
    assert found
    await hands.click_on(".selectric")
    await hands.wait_for(".selectric-items li")
    entry = f".selectric-items li:text-is('{found[1]}')"
    await hands.click(await hands.show(".selectric-scroll", entry))
    await hands.click_on(f"#buttons button:text-is('{found[2]}')")


async def use_colorwheel(hands: Hands) -> None:
    """A click in the field of hues and saturations, and one beside it for the brightness."""
    wanted = await hands.read(_COLOR, hands.instruction)
    hue, saturation, value = colorsys.rgb_to_hsv(*(part / 255 for part in wanted))
    await hands.click_on("#col")
    field, bar = await hands.read(_PICKER)
    await hands.click((field[0] + hue * field[2], field[1] + (1 - saturation) * field[3]))
    await hands.click((bar[0] + bar[2] / 2, bar[1] + (1 - value) * bar[3]))
    await hands.click_on("#query")  # closes the picker, which covers the button
    await hands.click_on("#subbtn")


_COLOR = """(instruction) => {
  const patch = document.querySelector('#query .cc');
  const probe = document.createElement('i');
  probe.style.color = patch ? patch.style.backgroundColor : instruction.split(' ')[1];
  document.body.append(probe);
  const found = getComputedStyle(probe).color.match(/\\d+/g).map(Number);
  probe.remove();
  return found;
}"""
_PICKER = """() => [...document.querySelectorAll('canvas')].slice(-2).map((canvas) => {
  const { x, y, width, height } = canvas.getBoundingClientRect();
  return [x, y, width - 1, height - 1];
})"""


async def daily_calendar(hands: Hands) -> None:
    duration, name, hours = re.findall(
        r'Create a (.*) event named "(.*)", between (.*)\.', hands.instruction
    )[0]
    number, unit = duration.split()
    halves = round(float(number) * (2 if unit.startswith("hour") else 1 / 30))
    first, end = (2 * _hour(each) for each in hours.split(" and "))
    for _ in range(SCROLLS):
        free = set(await hands.read(_FREE_HALVES, HOUR_HEIGHT))
        starts = [at for at in range(first, end - halves + 1) if free >= {*range(at, at + halves)}]
        if starts:
            break
        await hands.scroll("#area")
    x, y = await hands.middle(f"#hh-{starts[0]}")
    to_x, to_y = await hands.middle(f"#hh-{starts[0] + halves - 1}")
    await hands.drag((x, y - 4), (to_x, to_y))
    if not await hands.read("() => Boolean(document.querySelector('#event-name'))"):
        # Where the fonts wrap the hours, the event is drawn above the mouse, and waits for it.
        await hands.click_on("#newEvent")
    await hands.type(await hands.middle("#event-name"), name)
    await hands.click(await hands.show("#area", "#create-event .create"))


def _hour(name: str) -> int:
    return int(name[:-2]) % 12 + 12 * name.endswith("PM")


_FREE_HALVES = """(above) => [...document.querySelectorAll('.half-hour')].filter((half) => {
  const { x, y, width, height } = half.getBoundingClientRect();
  const middle = [x + width / 2, y + height / 2];
  const isFree = [-4, 4].every(
    (by) => document.elementFromPoint(middle[0], middle[1] + by) === half);
  return isFree && y - above > document.querySelector('#area').getBoundingClientRect().y;
}).map((half) => Number(half.id.slice(3)))"""
"""The half hours that are in view, with so much room above, and that no event covers."""
HOUR_HEIGHT = 41


async def click_menu(hands: Hands) -> None:
    path = hands.instruction.removeprefix("Select ").split(">")
    for name in path[:-1]:
        await hands.hover(await _menu_entry(hands, name))
        await hands.wait_for(f"li:has(> div:text-is('{name}')) > ul")
    await hands.click(await _menu_entry(hands, path[-1]))


async def _menu_entry(hands: Hands, name: str) -> Spot:
    await hands.wait_for(f"#menu div:text-is('{name}')")
    return await hands.middle(f"#menu div:text-is('{name}')")


INSIDE = {"Prev", "Stop", "Play", "Next"} | {
    f"ui-icon-{name}" for name in ("seek-start", "stop", "play", "seek-end")
}
"""The entries of the submenu."""


async def click_menu_2(hands: Hands) -> None:
    named = re.search('labeled "(.*)"', hands.instruction)
    icon = await hands.read(
        "() => document.querySelector('#query .ui-icon')?.className.split(' ').pop()"
    )
    entry = f"#menu div:has(> .{icon})"
    if named:
        entry = f"#menu li:not(:has(ul)) > div:has-text('{named[1]}')"
    await hands.click_on("#open-menu")
    if named[1] in INSIDE if named else icon in INSIDE:
        await hands.hover(await hands.middle("#menu > li:nth-child(2) > div"))
    await hands.wait_for(entry)
    await hands.click_on(entry)


async def use_autocomplete(hands: Hands) -> None:
    start, *end = re.findall('"([^"]*)"', hands.instruction)
    await _complete(hands, "#tags", start, lambda entry: entry.endswith(end[0] if end else ""))
    await hands.click_on("#subbtn")


async def _complete(hands: Hands, field: str, text: str, fits: Callable[[str], bool]) -> None:
    """Type, and choose the first entry that fits with the arrow keys."""
    await hands.type(await hands.middle(field), text)
    await hands.wait_for(".ui-autocomplete li:visible")
    entries = await hands.read(_SHOWN_TEXTS, ".ui-autocomplete li")
    for _ in range(1 + [fits(entry) for entry in entries].index(True)):
        await hands.press("ArrowDown")
    await hands.press("Enter")


_SHOWN_TEXTS = """(selector) => [...document.querySelectorAll(selector)]
  .filter((element) => element.checkVisibility()).map((element) => element.innerText.trim())"""


async def book_flight(hands: Hands) -> None:
    wanted, start, end, _ = await hands.read(_INNER_TEXTS, "#query .bold")
    await _complete(hands, "#flight-from", start, lambda entry: start in entry)
    await _complete(hands, "#flight-to", end, lambda entry: end in entry)
    await _pick_date(hands)
    await hands.click_on("#search")
    await hands.wait_for(".flight-price")
    shown = {"cheapest": (".flight-price", "price"), "shortest": (".time-duration", "duration")}
    numbers = await hands.read(_NUMBERS, *shown[wanted])
    await hands.click(await hands.show("#area", ".flight-price", numbers.index(min(numbers))))


_NUMBERS = """(selector, name) =>
  [...document.querySelectorAll(selector)].map((element) => Number(element.dataset[name]))"""


_SHOWN_MONTH = """() => {
  const { month, year } = document.querySelector('[data-month]').dataset;
  return [Number(month) + 1, Number(year)];
}"""


async def choose_date(hands: Hands) -> None:
    await _pick_date(hands)
    await hands.click_on("#subbtn")


async def _pick_date(hands: Hands) -> None:
    found = re.search(r"(\d+)/(\d+)/(\d+)", hands.instruction)
    assert found
    month, day, year = map(int, found.groups())
    await hands.click_on("#datepicker")
    await hands.wait_for("#ui-datepicker-div .ui-datepicker-month")
    for _ in range(3 * MONTHS):
        there = await hands.read(_SHOWN_MONTH)
        if there == [month, year]:
            break
        later = [there[1], there[0]] < [year, month]
        await hands.click_on(".ui-datepicker-next" if later else ".ui-datepicker-prev")
    await hands.click_on(f".ui-datepicker-calendar a:text-is('{day}')")


async def text_editor(hands: Hands) -> None:
    bold = await hands.read(_INNER_TEXTS, "#query .bold")
    wanted, style = bold[0], bold[1].strip()
    await hands.click_on(".ql-editor p")
    if wanted == "everything":
        await hands.press("Control", "a")
    else:
        words = (await hands.read(_INNER_TEXTS, ".ql-editor p"))[0].split(" ")
        await hands.press("Control", "Home")
        for _ in range(sum(len(word) + 1 for word in words[: words.index(wanted)])):
            await hands.press("ArrowRight")
        for _ in wanted:
            await hands.press("Shift", "ArrowRight")
    buttons = {"bold": ".ql-bold", "italics": ".ql-italic", "underlined": ".ql-underline"}
    if style in buttons:
        await hands.click_on(f".ql-toolbar {buttons[style]}")
    else:
        await hands.click_on(".ql-color .ql-picker-label")
        await hands.wait_for(".ql-color .ql-picker-options")
        await hands.click_on(f".ql-picker-item[data-value='{EDITOR_COLORS[style]}']")
    await hands.click_on("#subbtn")


EDITOR_COLORS = {"red": "#e60000", "orange": "#ff9900", "yellow": "#ffff00", "green": "#008a00",
                 "blue": "#0066cc", "purple": "#9933ff"}  # fmt: skip


async def copy_paste(hands: Hands) -> None:
    found = re.search(r"(\d)(?:st|nd|rd|th) text area", hands.instruction)
    source = f"#text-{found[1]}" if found else "textarea"
    await hands.click_on(source)
    await hands.press("Control", "a")
    await hands.press("Control", "c")
    await hands.click_on("#answer-input")
    await hands.press("Control", "v")
    await hands.click_on("#subbtn")


async def use_spinner(hands: Hands) -> None:
    wanted = int(re.findall(r"-?\d+", hands.instruction)[0])
    for _ in range(abs(wanted)):
        await hands.click_on(".ui-spinner-up" if wanted > 0 else ".ui-spinner-down")
    await hands.click_on("#subbtn")


Oracle = Callable[[Hands], Awaitable[None]]
ORACLES: dict[str, Oracle] = {
    "drag-box": drag_box,
    "drag-circle": drag_that_way,
    "drag-single-shape": drag_that_way,
    "drag-items": drag_items,
    "drag-items-grid": drag_items_grid,
    "drag-sort-numbers": drag_sort_numbers,
    "drag-shapes": drag_shapes,
    "drag-shapes-2": drag_shapes_2,
    "draw-line": draw_line,
    "highlight-text": highlight_text,
    "highlight-text-2": highlight_text,
    "resize-textarea": resize_textarea,
    "text-editor": text_editor,
    "copy-paste": copy_paste,
    "copy-paste-2": copy_paste,
    "use-spinner": use_spinner,
    "use-slider": use_sliders,
    "use-slider-2": use_sliders,
    "click-menu": click_menu,
    "click-menu-2": click_menu_2,
    "use-autocomplete": use_autocomplete,
    "use-autocomplete-nodelay": use_autocomplete,
    "book-flight": book_flight,
    "book-flight-nodelay": book_flight,
    "form-sequence": form_sequence,
    "form-sequence-2": form_sequence_2,
    "form-sequence-3": form_sequence_3,
    "daily-calendar": daily_calendar,
    "use-colorwheel": use_colorwheel,
    "use-colorwheel-2": use_colorwheel,
    "choose-date": choose_date,
    "choose-date-easy": choose_date,
    "choose-date-medium": choose_date,
    "choose-date-nodelay": choose_date,
}
BY_MARKS = ORACLES.keys() - {
    "highlight-text",
    "highlight-text-2",
    "use-colorwheel",
    "use-colorwheel-2",
}
"""The tasks that marks are enough for: not selecting text, not choosing a place in a picture."""
