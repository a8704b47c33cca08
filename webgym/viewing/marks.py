"""The action of a step, drawn on its screenshot: only from what was stored with the step.

Pixels and boxes are those of the viewport, whose size is that of the page in the observation. A
screenshot shows the whole viewport, with as many pixels as the device has for each; marks are
therefore fractions of the viewport, and right at any scale. What cannot be placed is not: then
there are no marks, and a word on why.
"""

from typing import NamedTuple

import msgspec

from rollgym.monitor import printable_line
from rollgym.viewer.view import Mark
from webgym.browser.contract.answers import Box
from webgym.environment.actions import (
    ACTIONS,
    FULL_SCALE,
    HoverAndScroll,
    Point,
    Scroll,
    Select,
    Type,
    Viewport,
)
from webgym.viewing.records import Done, StepRecord

LABEL_LIMIT = 80
ARROW = 0.2
"""How far an arrow goes, of the width or of the height."""

_AIMED = frozenset(
    key
    for key, kind in ACTIONS.items()
    if any(field.name == "target" for field in msgspec.structs.fields(kind))
)
_DIRECTIONS = {
    "up": (0.0, -ARROW),
    "down": (0.0, ARROW),
    "left": (-ARROW, 0.0),
    "right": (ARROW, 0.0),
}
_LABELS = {Type.key: "text", Select.key: "option"}


class Drawing(NamedTuple):
    """The marks of a step; `unplaced` says why one that should have some has none."""

    marks: tuple[Mark, ...] = ()
    unplaced: str = ""


def draw(step: StepRecord, interaction_mode: str) -> Drawing:
    """The marks of an action that is aimed at something or scrolls; nothing of any other."""
    action, page = step.action, step.observation.page
    if action is None or step.observation.screenshot is None:
        return Drawing()
    if action.key not in _AIMED and action.key != Scroll.key:
        return Drawing()
    if not page.width or not page.height:
        return Drawing(unplaced="the size of the viewport was not stored")
    if action.key == Scroll.key:
        return Drawing(_arrow(action, 0.5, 0.5))
    return _aimed(action, interaction_mode, Viewport(page.width, page.height))


def _aimed(action: Done, mode: str, viewport: Viewport) -> Drawing:
    pixel = action.pixel or _stored_point(action, mode, viewport)
    if pixel is None:
        return Drawing(unplaced="where it was aimed was not stored")
    x, y = pixel
    if not (0 <= x < viewport.width and 0 <= y < viewport.height):
        size = f"{viewport.width} by {viewport.height} pixels"
        return Drawing(unplaced=f"it was aimed at ({x}, {y}), out of the viewport of {size}")
    return Drawing(tuple(_marks(action, x / viewport.width, y / viewport.height, viewport)))


def _marks(action: Done, x: float, y: float, viewport: Viewport) -> list[Mark]:
    marks = [Mark("point", x, y, label=_label(action))]
    if action.box is not None:
        marks.insert(0, _box(action.box, viewport))
    if action.key == HoverAndScroll.key:
        marks += _arrow(action, x, y)
    return marks


def _box(box: Box, viewport: Viewport) -> Mark:
    """As much of it as is in view."""
    left, top = max(0.0, box.x), max(0.0, box.y)
    right = min(float(viewport.width), box.x + box.width)
    bottom = min(float(viewport.height), box.y + box.height)
    return Mark(
        "box",
        left / viewport.width,
        top / viewport.height,
        max(0.0, right - left) / viewport.width,
        max(0.0, bottom - top) / viewport.height,
    )


def _arrow(action: Done, x: float, y: float) -> tuple[Mark, ...]:
    direction = action.arguments.get("direction")
    if not isinstance(direction, str) or direction not in _DIRECTIONS:
        return ()
    width, height = _DIRECTIONS[direction]
    return (Mark("arrow", x, y, width, height, label=direction),)


def _label(action: Done) -> str:
    written = action.arguments.get(_LABELS.get(action.key, ""))
    return printable_line(written, LABEL_LIMIT) if isinstance(written, str) else ""


def _stored_point(action: Done, mode: str, viewport: Viewport) -> tuple[int, int] | None:
    """Of a record without a pixel: that of its coordinates, where the mode says what they are."""
    if mode != "coordinates":
        return None
    match action.arguments.get("coordinate"):
        case [int() | float() as x, int() | float() as y] if _in_scale(x) and _in_scale(y):
            return Point(x, y).pixel(viewport)
        case _:
            return None


def _in_scale(number: float) -> bool:
    return 0 <= number <= FULL_SCALE
