"""Commands that move things: dragging, and moving sliders to a value.

A native slider gets its value as from a person. One that a page builds (`role=slider`) is focused
and moved by arrow keys, until it says that it has the value.
"""

from webgym.browser.contract import commands
from webgym.browser.contract.errors import CommandError
from webgym.browser.page.elements import ElementFacts
from webgym.browser.page.input import InputDevices, check_in_view, find_key
from webgym.browser.page.script import PageScript
from webgym.browser.page.tab import Tab


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


MOST_KEYS = 1_000
"""The most keys that move a slider."""


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
