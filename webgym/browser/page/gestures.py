"""Commands that are a person's gestures: pointing, filling in, scrolling, pressing keys."""

import msgspec

from webgym.browser.contract.answers import VIEWPORT_HEIGHT, VIEWPORT_WIDTH
from webgym.browser.contract.commands import (
    ClickCoords,
    ClickId,
    Command,
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
    TabAndEnter,
)
from webgym.browser.contract.errors import CommandError
from webgym.browser.page.filling import fill_at, fill_element
from webgym.browser.page.hands import Hands
from webgym.browser.page.keys import find_key, find_keys
from webgym.browser.page.script import PageScript
from webgym.browser.page.tab import Tab

FULL_PAGE = VIEWPORT_HEIGHT - 50
WHEEL_PIXELS = 400
Result = dict[str, object]


async def act(command: Command, tab: Tab, deadline: float) -> Result:
    """Make the gesture; what there is to say about it. Raises CommandError."""
    if isinstance(command, ClickCoords | FillCoords | HoverCoords | HoverAndScrollCoords):
        _check_in_view(command.x, command.y)
    match command:
        case FillCoords():
            await fill_at(tab, command, deadline)
        case FillId():
            await fill_element(tab, command, deadline)
        case Keypress():
            await Hands(tab).press(find_keys(command.keys), deadline)
        case TabAndEnter():
            for key in ("Tab", "Enter"):
                await Hands(tab).press([find_key(key)], deadline)
        case SelectOption():
            choice = await PageScript(tab.world).select_option(command.id, command.value, deadline)
            return {"status": "success", **msgspec.to_builtins(choice)}
        case ScrollId() | PageDown() | PageUp():
            return await _scroll(command, tab, deadline)
        case _:
            await _point(command, tab, deadline)
    return {"status": "success"}


def _check_in_view(x: float, y: float) -> None:
    if x > VIEWPORT_WIDTH or y > VIEWPORT_HEIGHT:
        size = f"{VIEWPORT_WIDTH} x {VIEWPORT_HEIGHT}"
        raise CommandError(f"the point {x:g}, {y:g} is outside of the screenshot, which is {size}")


async def _point(command: Command, tab: Tab, deadline: float) -> None:
    hands, script = Hands(tab), PageScript(tab.world)
    match command:
        case ClickCoords():
            await script.prepare_click(command.x, command.y, deadline)
            await hands.click(command.x, command.y, deadline)
        case ClickId():
            place = await script.locate(command.id, deadline)
            await script.prepare_click(place.x, place.y, deadline)
            await hands.click(place.x, place.y, deadline)
        case HoverCoords():
            await hands.hover(command.x, command.y, deadline)
        case HoverId():
            place = await script.locate(command.id, deadline)
            await hands.hover(place.x, place.y, deadline)
        case HoverAndScrollCoords():
            point, direction = (command.x, command.y), command.direction
            pixels = await script.wheel_distance(*point, direction, WHEEL_PIXELS, deadline)
            await hands.turn_wheel(*point, direction, pixels, deadline)
        case _:
            raise NotImplementedError(command.command)


async def _scroll(command: ScrollId | PageDown | PageUp, tab: Tab, deadline: float) -> Result:
    script = PageScript(tab.world)
    match command:
        case ScrollId():
            moved = await script.scroll_element(command.id, command.direction, deadline)
        case PageDown() | PageUp():
            amount = FULL_PAGE if command.full_page else command.amount
            signed = amount if isinstance(command, PageDown) else -amount
            moved = await script.scroll_page(signed, deadline)
    return {"status": "success", "moved": moved}
