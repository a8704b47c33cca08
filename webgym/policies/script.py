"""A recorded solution, played action by action: each action is decided from what the page shows.

For the next line of the solution the script finds the element with that name and aims at its mark,
or at its middle when elements have no marks. With coordinates it scrolls to elements that are out
of view, one action at a time; with marks the browser does that. It waits for elements that are not
on the page yet, with actions too, as an agent would.
"""

import re
from collections import deque

from webgym.actions import space as acts
from webgym.actions.space import Action, HoverAndScroll, Mark, Point, Scroll
from webgym.browser.contract.commands import InteractionMode
from webgym.context.page_view import PageElement, PageText
from webgym.sites.tasks.task import ActionKind, RecordedAction, Solution

SEARCH_STEPS = 15
LOOKS = 3
WAIT_SECONDS = 1.0
EDITABLE, EXPANDED, OUT_OF_VIEW, SCROLLABLE = "editable", "expanded", "out of view", "scrollable"
NEAR, LOW = 60, 900
"""In thousandths of the screen: close beside each other, and close to the lower edge."""

_TREE_LINE = re.compile(
    r' *(?:\[\d+\] )?(?P<role>[A-Za-z]+)(?: "(?P<name>.*?)")?'
    r"(?:(?: [a-z]+=(?:\"[^\"]*\"|[^\s\"]\S*)| \([a-z, ]+\))*+)"
)
_UNNAMED_ROLES = frozenset({"RootWebArea", "ListMarker", "Iframe"})


class ScriptError(Exception):
    """The page does not show what the next line of the solution names."""


class Script:
    """Plays a solution, one action at a time."""

    def __init__(self, solution: Solution, mode: InteractionMode, *, must_see: bool = True) -> None:
        """With `must_see` False it continues after a few tries without the text that it should
        read, because a chat may have cut that text off.
        """
        self._lines = deque(solution.actions)
        self._mode = mode
        self._must_see = must_see
        self._start_search()

    @property
    def reads(self) -> bool:
        """Whether the next decision needs the text of the page."""
        return bool(self._lines) and self._lines[0].kind is ActionKind.SEE

    def decide(self, page: PageText, *, is_busy: bool = False) -> Action | None:
        """The next action, or None when the page shows the text to read. Raises ScriptError."""
        if not self._lines:
            raise ScriptError(f"the recording has ended, but the task goes on at {page.url}")
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
        if found is None or not _can_reach(found):
            return self._search(page, found, is_busy=is_busy)
        if line.kind is not ActionKind.SELECT:
            self._advance()
            return _targeted(line, _aim(found))
        return self._select(line, found, page)

    def _advance(self) -> None:
        self._lines.popleft()
        self._start_search()

    def _start_search(self) -> None:
        self._searched = 0
        self._approach = _Approach()

    def _count(self, page: PageText) -> None:
        """Count an action that only searches. Raises ScriptError after too many."""
        self._searched += 1
        if self._searched > SEARCH_STEPS:
            what = self._lines[0].target or self._lines[0].value
            raise ScriptError(f"{what!r} was not found at {page.url} after {SEARCH_STEPS} steps")

    def _find(self, line: RecordedAction, page: PageText) -> PageElement | None:
        """The first element of this name that takes the action, preferably one that is in view."""
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
        """Scroll to an element that is out of view; scroll down or wait for a missing one."""
        self._count(page)
        scroll = None if found is None else self._approach.next_scroll(found, page)
        if scroll is not None:
            return scroll
        if is_busy or not page.scroll.below:
            return acts.Wait(WAIT_SECONDS)
        return acts.Scroll("down")

    def _select(self, line: RecordedAction, found: PageElement, page: PageText) -> Action:
        """Select by the option's mark; with coordinates one click opens the list, one selects."""
        if self._mode == "set_of_marks":
            number = next((each.id for each in found.options if each.text == line.value), None)
            if number is None:
                raise ScriptError(f"{line.target!r} has no option {line.value!r}")
            self._advance()
            return acts.Select(Mark(number))
        if EXPANDED not in found.flags:
            self._count(page)
            return acts.Click(_aim(found))
        for element in page.elements:
            is_wanted = element.role == "option" and line.value in (element.name, element.text)
            if is_wanted and OUT_OF_VIEW not in element.flags:
                self._advance()
                return acts.Click(_aim(element))
        raise ScriptError(f"the open list {line.target!r} does not show {line.value!r}")


class _Approach:
    """Scrolls to one element; remembers which areas were scrolled without effect."""

    def __init__(self) -> None:
        self._scrolled: tuple[str, tuple[int, int]] | None = None
        """The name of the last area, and where the element was before it was scrolled."""
        self._useless: set[str] = set()

    def next_scroll(self, element: PageElement, page: PageText) -> Action | None:
        """Scroll an area that may hide the element, or else the page; None if it is in view."""
        if _can_reach(element):
            return None
        if self._scrolled is not None and self._scrolled[1] == element.point:
            self._useless.add(self._scrolled[0])
        (x, y), areas = _middle(element), self._areas(element, page)
        if not areas:
            return Scroll("up" if y < 0 else "down")
        area = areas[-1]  # the innermost of nested areas is listed last
        if _middle(area)[1] > LOW and page.scroll.below:
            return Scroll("down")
        self._scrolled = area.name, (x, y)
        return HoverAndScroll(_aim(area), "up" if y < _middle(area)[1] else "down")

    def _areas(self, element: PageElement, page: PageText) -> list[PageElement]:
        """The scrollable areas that may hold the element, judging by its position."""
        return [
            each
            for each in page.elements
            if SCROLLABLE in each.flags and OUT_OF_VIEW not in each.flags
            if each.name not in self._useless
            if abs(_middle(each)[0] - _middle(element)[0]) < NEAR
        ]


def _can_reach(element: PageElement) -> bool:
    return element.id is not None or OUT_OF_VIEW not in element.flags


def _aim(element: PageElement) -> Mark | Point:
    """Its mark, or its middle if it has none."""
    return Point(*_middle(element)) if element.id is None else Mark(element.id)


def _middle(element: PageElement) -> tuple[int, int]:
    return element.point or (0, 0)


def _targeted(line: RecordedAction, target: Mark | Point) -> Action:
    match line.kind:
        case ActionKind.CLICK:
            return acts.Click(target)
        case ActionKind.HOVER:
            return acts.Hover(target)
        case ActionKind.TYPE:
            return acts.Type(target, line.value)
    raise NotImplementedError(line.kind)


def _untargeted(line: RecordedAction) -> Action:
    match line.kind:
        case ActionKind.PRESS:
            return acts.PressKeys((line.value,))
        case ActionKind.SCROLL:
            return acts.Scroll("down" if line.value == "down" else "up")
        case ActionKind.BACK:
            return acts.GoBack()
        case ActionKind.ANSWER:
            return acts.GiveAnswer(line.value)
    raise NotImplementedError(line.kind)


def _shows(page: PageText, wanted: str) -> bool:
    """Whether the page has these words in this order, in its tree or in the names of its nodes."""
    words = _normalized(wanted)
    if words in _normalized(page.text):
        return True
    return words in _normalized("\n".join(map(_node_name, page.text.splitlines())))


def _node_name(line: str) -> str:
    """The name in a line of the accessibility tree; a line of another form is a text itself."""
    found = _TREE_LINE.fullmatch(line)
    if found is None:
        return line
    return "" if found["role"] in _UNNAMED_ROLES else found["name"] or ""


def _normalized(text: str) -> str:
    """Without line breaks and capitals, which styles may change."""
    return " ".join(text.split()).casefold()
