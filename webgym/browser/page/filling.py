"""Filling in a field: click it, type, press Enter.

What the field is decides how. A date or a colour is not typed key by key but set, as its picker
would do it; a drop-down list gets the option of that name.
"""

import re

from webgym.browser.contract.commands import FillCoords, FillId
from webgym.browser.contract.errors import CommandError
from webgym.browser.page.elements import Facts
from webgym.browser.page.hands import Hands
from webgym.browser.page.keys import find_key
from webgym.browser.page.script import PageScript
from webgym.browser.page.tab import Tab


async def fill_element(tab: Tab, command: FillId, deadline: float) -> None:
    script = PageScript(tab.world)
    place = await script.locate(command.id, deadline)
    if place.facts.is_select:
        await script.select_option(command.id, command.value, deadline)
        return
    _check_may_change(place.facts)
    if place.facts.kind != "picker":
        await Hands(tab).click(place.x, place.y, deadline)
    facts = await script.focus_for_typing(deadline, number=command.id)
    await _fill(tab, command, facts, deadline)


async def fill_at(tab: Tab, command: FillCoords, deadline: float) -> None:
    script, point = PageScript(tab.world), (command.x, command.y)
    there = await script.at(*point, deadline)
    if there is not None and there.is_select:
        raise CommandError("this is a drop-down list: click it, then the option in the open list")
    if there is not None:
        _check_may_change(there)
    if there is None or there.kind != "picker":
        await Hands(tab).click(*point, deadline)
    facts = await script.focus_for_typing(deadline, point=point)
    await _fill(tab, command, facts, deadline)


async def _fill(
    tab: Tab, command: FillCoords | FillId, facts: Facts | None, deadline: float
) -> None:
    """Put the value into the field that has the focus."""
    script, hands = PageScript(tab.world), Hands(tab)
    if facts is not None and facts.kind == "picker":
        await script.set_special_value(command.value, deadline)
    else:
        _check_takes_text(facts)
        await _place_cursor(tab, replace=command.delete_existing, deadline=deadline)
        has_one_line = facts is not None and facts.tag == "input"
        await hands.type(_one_line(command.value) if has_one_line else command.value, deadline)
    if command.press_enter:
        await hands.press([find_key("Enter")], deadline)


def _check_takes_text(facts: Facts | None) -> None:
    if facts is None or facts.kind not in {"text", "rich"}:
        what = "nothing" if facts is None else f"<{facts.tag}>"
        raise CommandError(f"no text field was clicked but {what}; nothing was typed")
    _check_may_change(facts)


def _check_may_change(facts: Facts) -> None:
    if facts.disabled or facts.readonly:
        state = "disabled" if facts.disabled else "read-only"
        raise CommandError(f"the field is {state}; nothing was typed")


def _one_line(text: str) -> str:
    """A line break typed into a field that has none would submit its form."""
    return " ".join(line for line in re.split(r"[\r\n]+", text) if line)


async def _place_cursor(tab: Tab, *, replace: bool, deadline: float) -> None:
    """To the end of what the field holds; `replace` takes that away first."""
    hands = Hands(tab)
    if not replace:
        await hands.press([find_key("Control"), find_key("End")], deadline)
        return
    existing = await PageScript(tab.world).select_existing(deadline)
    if existing.selected and not existing.empty:
        await hands.press([find_key("Delete")], deadline)
