"""Commands that are gestures of a person: pointing, filling in, scrolling, dragging, sliding.

Filling in a field means to click it, type, and press Enter. How depends on the field: a date or a
colour is not typed but set, as its picker does it; a drop-down list gets the option of that name.

A native slider gets its value as from a person. One that a page builds (`role=slider`) is focused
and moved by arrow keys, until it says that it has the value.
"""

import re

from webgym.browser.contract import commands
from webgym.browser.contract.errors import CommandError
from webgym.browser.page.elements import ElementFacts
from webgym.browser.page.input import InputDevices, check_in_view, find_key
from webgym.browser.page.script import PageScript
from webgym.browser.page.tab import Tab

PAGE_OVERLAP = 50
"""Pixels of the page that are still seen after it was scrolled by its height."""
MOST_KEYS = 1_000
"""The most keys that move a slider."""


async def fill_element(tab: Tab, command: commands.FillId, deadline: float) -> None:
    script = PageScript(tab.world)
    point = await script.locate(command.id, deadline)
    if point.facts.is_select:
        await script.select_option(command.id, command.value, deadline)
        return
    _check_may_change(point.facts)
    if point.facts.kind != "picker":
        await InputDevices(tab).click(point.x, point.y, deadline)
    facts = await script.focus_for_typing(deadline, number=command.id)
    await _fill(tab, command, facts, deadline)


async def fill_at(tab: Tab, command: commands.FillCoords, deadline: float) -> None:
    script, point = PageScript(tab.world), (command.x, command.y)
    target = await script.at(*point, deadline)
    if target is not None and target.is_select:
        raise CommandError("this is a drop-down list: click it, then the option in the open list")
    if target is not None:
        _check_may_change(target)
    if target is None or target.kind != "picker":
        await InputDevices(tab).click(*point, deadline)
    facts = await script.focus_for_typing(deadline, point=point)
    await _fill(tab, command, facts, deadline)


async def _fill(
    tab: Tab,
    command: commands.FillCoords | commands.FillId,
    facts: ElementFacts | None,
    deadline: float,
) -> None:
    """Put the value into the focused field."""
    script, devices = PageScript(tab.world), InputDevices(tab)
    if facts is not None and facts.kind == "picker":
        await script.set_special_value(command.value, deadline)
    else:
        _check_takes_text(facts)
        known = facts is not None and facts.kind != "keys"
        await _place_cursor(tab, replace=command.delete_existing, known=known, deadline=deadline)
        has_one_line = facts is not None and facts.tag == "input"
        await devices.type(_one_line(command.value) if has_one_line else command.value, deadline)
    if command.press_enter:
        await devices.press([find_key("Enter")], deadline)


def _check_takes_text(facts: ElementFacts | None) -> None:
    if facts is None or facts.kind not in {"text", "rich", "keys"}:
        what = "nothing" if facts is None else f"<{facts.tag}>"
        raise CommandError(f"{what} was clicked, not a text field; nothing was typed")
    _check_may_change(facts)


def _check_may_change(facts: ElementFacts) -> None:
    if facts.disabled or facts.readonly:
        state = "disabled" if facts.disabled else "read-only"
        raise CommandError(f"the field is {state}; nothing was typed")


def _one_line(text: str) -> str:
    """The text without line breaks, which would submit the form of a one-line field."""
    return " ".join(line for line in re.split(r"[\r\n]+", text) if line)


async def _place_cursor(tab: Tab, *, replace: bool, known: bool, deadline: float) -> None:
    """Move the cursor to the end of the field; with `replace`, delete the content instead.

    A field that is not `known` to our script is handled by keys alone.
    """
    devices = InputDevices(tab)
    if not replace:
        await devices.press([find_key("Control"), find_key("End")], deadline)
        return
    if not known:
        await devices.press([find_key("Control"), find_key("a")], deadline)
    if not known or await PageScript(tab.world).select_existing(deadline):
        await devices.press([find_key("Delete")], deadline)


WHEEL_PIXELS = 400
Result = dict[str, object]


async def act(command: commands.Command, tab: Tab, deadline: float) -> Result:
    """Carry out a gesture; returns its result. Raises CommandError."""
    if isinstance(
        command,
        commands.ClickCoords
        | commands.FillCoords
        | commands.HoverCoords
        | commands.HoverAndScrollCoords
        | commands.SelectOptionCoords,
    ):
        check_in_view(tab, command.x, command.y)
    match command:
        case commands.FillCoords():
            await fill_at(tab, command, deadline)
        case commands.FillId():
            await fill_element(tab, command, deadline)
        case commands.TabAndEnter():
            for key in ("Tab", "Enter"):
                await InputDevices(tab).press([find_key(key)], deadline)
        case commands.SelectOption() | commands.SelectOptionCoords():
            target = (
                command.id if isinstance(command, commands.SelectOption) else (command.x, command.y)
            )
            chosen = await PageScript(tab.world).select_option(target, command.value, deadline)
            about = {"label": chosen.label, "value": chosen.value, "changed": chosen.changed}
            return {"status": "success", **about}
        case commands.ScrollId() | commands.PageDown() | commands.PageUp():
            return await _scroll(command, tab, deadline)
        case _:
            await _point(command, tab, deadline)
    return {"status": "success"}


async def _point(command: commands.Command, tab: Tab, deadline: float) -> None:
    devices, script = InputDevices(tab), PageScript(tab.world)
    match command:
        case commands.ClickCoords():
            await script.prepare_click(command.x, command.y, deadline)
            await devices.click(command.x, command.y, deadline, command.button, command.clicks)
        case commands.ClickId():
            point = await script.locate(command.id, deadline)
            await script.prepare_click(point.x, point.y, deadline)
            await devices.click(point.x, point.y, deadline, command.button, command.clicks)
        case commands.HoverCoords():
            await devices.hover(command.x, command.y, deadline)
        case commands.HoverId():
            point = await script.locate(command.id, deadline)
            await devices.hover(point.x, point.y, deadline)
        case commands.HoverAndScrollCoords():
            x, y, direction = command.x, command.y, command.direction
            pixels = await script.wheel_distance(x, y, direction, WHEEL_PIXELS, deadline)
            await devices.turn_wheel(x, y, direction, pixels, deadline)
        case _:
            raise NotImplementedError(command.command)


async def _scroll(
    command: commands.ScrollId | commands.PageDown | commands.PageUp, tab: Tab, deadline: float
) -> Result:
    script = PageScript(tab.world)
    match command:
        case commands.ScrollId():
            moved = await script.scroll_element(command.id, command.direction, deadline)
        case commands.PageDown() | commands.PageUp():
            amount = tab.viewport.height - PAGE_OVERLAP if command.full_page else command.amount
            signed = amount if isinstance(command, commands.PageDown) else -amount
            moved = await script.scroll_page(signed, deadline)
    return {"status": "success", "moved": moved}


async def drag(command: commands.DragCoords | commands.DragId, tab: Tab, deadline: float) -> None:
    """Drag from one point or element to another. Raises CommandError."""
    if isinstance(command, commands.DragCoords):
        start, end = (command.x, command.y), (command.to_x, command.to_y)
        check_in_view(tab, *start)
    else:
        start, end = await _drag_points(command, PageScript(tab.world), deadline)
    check_in_view(tab, *end)
    await InputDevices(tab).drag(start, end, deadline)


async def _drag_points(
    command: commands.DragId, script: PageScript, deadline: float
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Where to grab an element and where to release it."""
    grabbed = await script.locate(command.id, deadline)
    if command.to_id is None:
        end = grabbed.x + (command.dx or 0), grabbed.y + (command.dy or 0)
        return (grabbed.x, grabbed.y), (max(0.0, end[0]), max(0.0, end[1]))
    aim = await script.locate(command.to_id, deadline)
    # To find the second one, the page may have been scrolled.
    grabbed = await script.locate(command.id, deadline)
    if await script.locate(command.to_id, deadline) != aim:
        raise CommandError(
            f"the elements {command.id} and {command.to_id} are not in view at the same time: "
            "scroll so that both are, or drag by a distance"
        )
    return (grabbed.x, grabbed.y), (aim.x, aim.y)


async def slide(
    command: commands.SlideCoords | commands.SlideId, tab: Tab, deadline: float
) -> float:
    """Move a slider; returns its new value. Raises CommandError if it cannot have this value."""
    script = PageScript(tab.world)
    target: int | tuple[float, float]
    if isinstance(command, commands.SlideId):
        target = command.id
        facts: ElementFacts | None = (await script.locate(target, deadline)).facts
    else:
        target = command.x, command.y
        check_in_view(tab, *target)
        facts = await script.at(*target, deadline)
    if facts is not None and facts.kind == "picker":
        number, point = (target, None) if isinstance(target, int) else (None, target)
        await script.focus_for_typing(deadline, number=number, point=point)
        return float(await script.set_special_value(f"{command.value:.12g}", deadline))
    slider = await script.focus_slider(target, deadline)
    if slider is None:
        raise CommandError("this is not a slider: drag it, or click it and press arrow keys")
    if not slider.low <= command.value <= slider.high:
        raise CommandError(f"the slider goes from {slider.low:g} to {slider.high:g}")
    return await _press_to(command.value, slider.now, tab, deadline)


async def _press_to(value: float, now: float | None, tab: Tab, deadline: float) -> float:
    """Press arrow keys until the focused slider has the value."""
    script, devices = PageScript(tab.world), InputDevices(tab)
    for _ in range(MOST_KEYS):
        if now is None:
            raise CommandError("the slider does not say its value: drag it, or press arrow keys")
        if now == value:
            return now
        key = "ArrowRight" if now < value else "ArrowLeft"
        await devices.press([find_key(key)], deadline)
        state = await script.slider_state(deadline)
        moved = None if state is None else state.now
        if moved is None or moved == now or ((moved > value) != (now > value) and moved != value):
            at = "gone" if moved is None else f"at {moved:g}"
            raise CommandError(f"the slider cannot be moved to {value:g} by keys; it is {at}")
        now = moved
    raise CommandError(f"the slider is at {now:g} after {MOST_KEYS} keys")
