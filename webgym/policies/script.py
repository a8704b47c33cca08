"""A recorded solution as a policy: it decides the next action from what the page shows.

For the solution's next line it finds the element of that name and aims at its mark, or at its
middle. With coordinates, what is out of view is scrolled to; what is not there yet is waited for,
by actions too, as an agent would.
"""

from collections import deque

from webgym.browser.contract.commands import InteractionMode
from webgym.context.page_text import PageElement, PageText
from webgym.environment import actions as acts
from webgym.environment.actions import Action, Mark, Point
from webgym.policies.reaching import OUT_OF_VIEW, Reach, aim, can_reach
from webgym.policies.reading import spoken
from webgym.sites.tasks import Action as Line
from webgym.sites.tasks import ActionKind, Solution

SEARCH_STEPS = 15
LOOKS = 3
WAIT_SECONDS = 1.0
EDITABLE, EXPANDED = "editable", "expanded"


class LostError(Exception):
    """The page does not show what the solution's next line names."""


class Script:
    """A solution as a policy: one action at a time, decided by what can be seen."""

    def __init__(self, solution: Solution, mode: InteractionMode, *, must_see: bool = True) -> None:
        """`must_see` False goes on after a while without what should be read: a chat may cut it."""
        self._lines = deque(solution.actions)
        self._mode = mode
        self._must_see = must_see
        self._begin_search()

    @property
    def reads(self) -> bool:
        """Whether the next decision needs the text of the page."""
        return bool(self._lines) and self._lines[0].kind is ActionKind.SEE

    def decide(self, page: PageText, *, is_busy: bool = False) -> Action | None:
        """The next action, or None where the text can be seen. Raises LostError."""
        if not self._lines:
            raise LostError(f"the recording is over at {page.url}")
        line = self._lines[0]
        if line.kind is ActionKind.SEE:
            gives_up = not self._must_see and self._searched >= LOOKS
            if not gives_up and not _shows(page, line.value):
                return self._search(page, None, is_busy=is_busy)
            self._advance()
            return None
        if not line.target:
            self._advance()
            return _untargeted(line)
        found = self._find(line, page)
        if found is None or not can_reach(found):
            return self._search(page, found, is_busy=is_busy)
        if line.kind is not ActionKind.SELECT:
            self._advance()
            return _targeted(line, aim(found))
        return self._select(line, found, page)

    def _advance(self) -> None:
        self._lines.popleft()
        self._begin_search()

    def _begin_search(self) -> None:
        self._searched = 0
        self._reach = Reach()

    def _count(self, page: PageText) -> None:
        """One more action that does not do what the line says."""
        self._searched += 1
        if self._searched > SEARCH_STEPS:
            what = self._lines[0].target or self._lines[0].value
            raise LostError(f"there is no {what!r} to be had at {page.url}")

    def _find(self, line: Line, page: PageText) -> PageElement | None:
        """The first of this name that takes what the line does; at best one that is in view."""
        named = [
            element
            for element in page.elements
            if element.name == line.target
            and (line.kind is not ActionKind.TYPE or EDITABLE in element.flags)
            and (line.kind is not ActionKind.SELECT or element.options)
        ]
        in_view = (element for element in named if OUT_OF_VIEW not in element.flags)
        return next(in_view, next(iter(named), None))

    def _search(self, page: PageText, found: PageElement | None, *, is_busy: bool) -> Action:
        """Scroll to what is out of view; scroll on, or wait, for what is not there."""
        self._count(page)
        scroll = None if found is None else self._reach.towards(found, page)
        if scroll is not None:
            return scroll
        if is_busy or not page.scroll.below:
            return acts.Wait(WAIT_SECONDS)
        return acts.Scroll("down")

    def _select(self, line: Line, found: PageElement, page: PageText) -> Action:
        """By the option's number; with coordinates, a click opens the list, another chooses."""
        if self._mode == "set_of_marks":
            number = next((each.id for each in found.options if each.text == line.value), None)
            if number is None:
                raise LostError(f"{line.target!r} has no option {line.value!r}")
            self._advance()
            return acts.Select(Mark(number))
        if EXPANDED not in found.flags:
            self._count(page)
            return acts.Click(aim(found))
        for element in page.elements:
            is_wanted = element.role == "option" and line.value in (element.name, element.text)
            if is_wanted and OUT_OF_VIEW not in element.flags:
                self._advance()
                return acts.Click(aim(element))
        raise LostError(f"the open list {line.target!r} does not show {line.value!r}")


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


def _shows(page: PageText, wanted: str) -> bool:
    """Whether the words stand on the page in this order, whatever lies between its lines."""
    said = _plain(wanted)
    return said in _plain(page.text) or said in _plain(spoken(page.text))


def _plain(text: str) -> str:
    """Without regard to lines and capitals, which styles may change."""
    return " ".join(text.split()).casefold()
