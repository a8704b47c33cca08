"""How to get at an element: what is out of view is scrolled to, one action at a time.

Who aims by numbers needs none of this: an element that has one is brought into view by whoever acts
on it.
"""

from webgym.context.page_text import PageElement, PageText
from webgym.environment.actions import Action, HoverAndScroll, Mark, Point, Scroll

OUT_OF_VIEW, SCROLLABLE = "out of view", "scrollable"
NEAR, LOW = 60, 900
"""In thousandths of the screen: beside each other, and hardly seen above its lower edge."""


class Reach:
    """The way to one element; remembers which areas were scrolled in vain."""

    def __init__(self) -> None:
        self._scrolled: tuple[str, tuple[int, int]] | None = None
        """The name of an area, and where the element was when that was scrolled."""
        self._useless: set[str] = set()

    def towards(self, found: PageElement, page: PageText) -> Action | None:
        """Scroll an area that may hide it, or else the page; None where it can be acted on."""
        if can_reach(found):
            return None
        if self._scrolled is not None and self._scrolled[1] == found.point:
            self._useless.add(self._scrolled[0])
        (x, y), areas = _middle(found), self._areas(found, page)
        if not areas:
            return Scroll("up" if y < 0 else "down")
        area = areas[-1]  # of areas within areas the innermost is listed last
        if _middle(area)[1] > LOW and page.scroll.below:
            return Scroll("down")
        self._scrolled = area.name, (x, y)
        return HoverAndScroll(aim(area), "up" if y < _middle(area)[1] else "down")

    def _areas(self, found: PageElement, page: PageText) -> list[PageElement]:
        """Those that scroll by themselves, as far as they can be told to hold the element."""
        return [
            each
            for each in page.elements
            if SCROLLABLE in each.flags and OUT_OF_VIEW not in each.flags
            if each.name not in self._useless
            if abs(_middle(each)[0] - _middle(found)[0]) < NEAR
        ]


def can_reach(element: PageElement) -> bool:
    return element.id is not None or OUT_OF_VIEW not in element.flags


def aim(element: PageElement) -> Mark | Point:
    """At its number, or where there is none at its middle."""
    return Point(*_middle(element)) if element.id is None else Mark(element.id)


def _middle(element: PageElement) -> tuple[int, int]:
    return element.point or (0, 0)
