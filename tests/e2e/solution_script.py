"""A recorded solution as a policy: it decides the next action from what the page shows.

For the solution's next line it finds the element of that name and aims at its mark, or at the
middle of its box. What is out of view is scrolled to and what is not there yet is waited for, by
actions too, as an agent would.
"""

from collections import deque

import msgspec

from webgym.browser.contract.answers import Box, Element, StepAnswer
from webgym.browser.contract.commands import InteractionMode
from webgym.environment import actions as acts
from webgym.environment.actions import FULL_SCALE, Action, Mark, Point
from webgym.sites.tasks import Action as Line
from webgym.sites.tasks import ActionKind, Solution

SEARCH_STEPS = 15
WAIT_SECONDS = 1.0


class LostError(Exception):
    """The page does not show what the solution's next line names."""


class Sight(msgspec.Struct, frozen=True):
    """What there is to see after a step; `text` is that of the whole page, if it was asked for."""

    answer: StepAnswer
    text: str = ""

    @property
    def elements(self) -> tuple[Element, ...]:
        return self.answer.elements or ()

    @property
    def is_at_the_end(self) -> bool:
        page = self.answer.page
        return page.scroll_y + page.height >= page.page_height - 1


class Script:
    """A solution as a policy: one action at a time, decided by what can be seen."""

    def __init__(self, solution: Solution, mode: InteractionMode) -> None:
        self._lines = deque(solution.actions)
        self._mode = mode
        self._begin_search()

    @property
    def reads(self) -> bool:
        """Whether the next decision needs the text of the page."""
        return bool(self._lines) and self._lines[0].kind is ActionKind.SEE

    def decide(self, sight: Sight) -> Action | None:
        """The next action, or None where the text can be seen. Raises LostError."""
        line = self._lines[0]
        if line.kind is ActionKind.SEE:
            if _plain(line.value) not in _plain(sight.text):
                return self._search(sight, None)
            self._advance()
            return None
        if not line.target:
            self._advance()
            return _untargeted(line)
        found = self._find(line, sight)
        if found is None or not found.in_view:
            return self._search(sight, found)
        if line.kind is not ActionKind.SELECT:
            self._advance()
            return _targeted(line, self._aim(found, sight))
        return self._select(line, found, sight)

    def _advance(self) -> None:
        self._lines.popleft()
        self._begin_search()

    def _begin_search(self) -> None:
        self._searched = 0
        self._scrolled: tuple[int, Box] | None = None
        """An area, and where the element was when it was scrolled."""
        self._useless: set[int] = set()
        """Areas that were scrolled without moving the element."""

    def _count(self, sight: Sight) -> None:
        """One more action that does not do what the line says."""
        self._searched += 1
        if self._searched > SEARCH_STEPS:
            what = self._lines[0].target or self._lines[0].value
            raise LostError(f"there is no {what!r} to be had at {sight.answer.page.url}")

    def _find(self, line: Line, sight: Sight) -> Element | None:
        """The first of this name that takes what the line does; at best one that is in view."""
        named = [
            element
            for element in sight.elements
            if element.name == line.target
            and (line.kind is not ActionKind.TYPE or element.editable)
            and (line.kind is not ActionKind.SELECT or element.options)
        ]
        return next((element for element in named if element.in_view), next(iter(named), None))

    def _search(self, sight: Sight, found: Element | None) -> Action:
        """Scroll to what is out of view; scroll on, or wait, for what is not there."""
        self._count(sight)
        if found is not None:
            return self._scroll_to(found, sight)
        is_busy = not sight.answer.settled or sight.answer.page.loading
        if is_busy or sight.is_at_the_end:
            return acts.Wait(WAIT_SECONDS)
        return acts.Scroll("down")

    def _scroll_to(self, found: Element, sight: Sight) -> Action:
        """Scroll an area in view that may hide it, or else the page."""
        if self._scrolled is not None and self._scrolled[1] == found.box:
            self._useless.add(self._scrolled[0])
        areas = [
            each
            for each in sight.elements
            if each.scrollable and each.in_view and each.id not in self._useless
            if each.box.x <= _middle(found)[0] <= each.box.x + each.box.width
        ]
        if not areas:
            return acts.Scroll("up" if found.box.y < 0 else "down")
        area = min(areas, key=lambda each: each.box.width * each.box.height)
        if area.box.y + area.box.height >= sight.answer.page.height and not sight.is_at_the_end:
            return acts.Scroll("down")
        self._scrolled = area.id, found.box
        is_above = _middle(found)[1] < _middle(area)[1]
        return acts.HoverAndScroll(self._aim(area, sight), "up" if is_above else "down")

    def _select(self, line: Line, found: Element, sight: Sight) -> Action:
        """By the option's number; with coordinates, a click opens the list, another chooses."""
        if self._mode == "set_of_marks":
            number = next((each.id for each in found.options if each.text == line.value), None)
            if number is None:
                raise LostError(f"{line.target!r} has no option {line.value!r}")
            self._advance()
            return acts.Select(Mark(number))
        if not found.expanded:
            self._count(sight)
            return acts.Click(self._aim(found, sight))
        for element in sight.elements:
            if (element.role, element.text) == ("option", line.value) and element.in_view:
                self._advance()
                return acts.Click(self._aim(element, sight))
        raise LostError(f"the open list {line.target!r} does not show {line.value!r}")

    def _aim(self, element: Element, sight: Sight) -> Mark | Point:
        if self._mode == "set_of_marks":
            return Mark(element.id)
        (x, y), page = _middle(element), sight.answer.page
        return Point(round(FULL_SCALE * x / page.width), round(FULL_SCALE * y / page.height))


def _middle(element: Element) -> tuple[float, float]:
    box = element.box
    return box.x + box.width / 2, box.y + box.height / 2


def _targeted(line: Line, target: Mark | Point) -> Action:
    match line.kind:
        case ActionKind.CLICK:
            return acts.Click(target)
        case ActionKind.HOVER:
            return acts.Hover(target)
        case ActionKind.TYPE:
            return acts.Type(target, line.value)
    raise NotImplementedError(line.kind)


def _untargeted(line: Line) -> Action:
    match line.kind:
        case ActionKind.PRESS:
            return acts.PressKeys((line.value,))
        case ActionKind.SCROLL:
            return acts.Scroll("down" if line.value == "down" else "up")
        case ActionKind.BACK:
            return acts.GoBack()
        case ActionKind.ANSWER:
            return acts.Answer(line.value)
    raise NotImplementedError(line.kind)


def _plain(text: str) -> str:
    """Without regard to lines and capitals, which styles may change."""
    return " ".join(text.split()).casefold()
