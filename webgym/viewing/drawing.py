"""What is drawn for a web rollout: marks on screenshots, and the timeline.

*Marks* show the action of a step, from the values that were stored with the step only. Pixels and
boxes refer to the viewport, whose size is that of the page in the observation. A screenshot shows
the whole viewport at the resolution of the device. Marks are therefore fractions of the viewport,
and correct at any scale. An action that cannot be placed has no marks, and a text that says why.

*The timeline.* An episode does one thing at a time and stores how long each took: by step in the
step's `timings`, in order, and for the whole attempt in the outcome's `phases`. Time of the attempt
that no step has was spent before the first step (opening the start page), in a step that broke, or
after the last step (judging). Waiting for a browser comes first.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from rollgym.monitor import printable_line
from rollgym.viewer.documents.timeline import MOST_SPANS
from rollgym.viewer.view import MarkView, SpanView, TimelineView
from webgym.actions.space import (
    ACTIONS,
    FULL_SCALE,
    HoverAndScroll,
    Point,
    Scroll,
    Select,
    Slide,
    Type,
    Upload,
    Viewport,
)
from webgym.browser.contract.answers import Box
from webgym.episode.worker import WAITING
from webgym.trajectory.records import ActionRecord
from webgym.viewing.records import StepRecord

LABEL_LIMIT = 80
ARROW = 0.2
"""The length of an arrow, as a fraction of the width or the height."""

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
_LABELS = {
    Type.key: "text",
    Select.key: "option",
    Slide.key: "value",
    Upload.key: "file",
}


class StepDrawing(NamedTuple):
    """The marks of a step; `unplaced` says why they are missing."""

    marks: tuple[MarkView, ...] = ()
    unplaced: str = ""


def draw_marks(step: StepRecord, interaction_mode: str) -> StepDrawing:
    """The marks of an action that has a target or scrolls; empty for any other."""
    action, page = step.action, step.observation.page
    if action is None or step.observation.screenshot is None:
        return StepDrawing()
    if action.key not in _AIMED and action.key != Scroll.key:
        return StepDrawing()
    if not page.width or not page.height:
        return StepDrawing(unplaced="The size of the viewport was not stored.")
    if action.key == Scroll.key:
        return StepDrawing(_arrow(action, 0.5, 0.5))
    return _aimed(action, interaction_mode, Viewport(page.width, page.height))


def _aimed(action: ActionRecord, mode: str, viewport: Viewport) -> StepDrawing:
    pixel = action.pixel or _stored_point(action, mode, viewport)
    if pixel is None:
        return StepDrawing(unplaced="The target of the action was not stored.")
    x, y = pixel
    if not (0 <= x < viewport.width and 0 <= y < viewport.height):
        size = f"{viewport.width} by {viewport.height} pixels"
        return StepDrawing(unplaced=f"The target ({x}, {y}) is outside of the viewport of {size}.")
    return StepDrawing(tuple(_marks(action, x / viewport.width, y / viewport.height, viewport)))


def _marks(action: ActionRecord, x: float, y: float, viewport: Viewport) -> list[MarkView]:
    marks = [MarkView("point", x, y, label=_label(action))]
    if action.box is not None:
        marks.insert(0, _box(action.box, viewport))
    if action.key == HoverAndScroll.key:
        marks += _arrow(action, x, y)
    end = action.to_pixel or _stored_point(action, "coordinates", viewport, "to_coordinate")
    if end is not None:
        to_x, to_y = end[0] / viewport.width, end[1] / viewport.height
        marks.append(MarkView("arrow", x, y, to_x - x, to_y - y, label="drag"))
    return marks


def _box(box: Box, viewport: Viewport) -> MarkView:
    """The visible part of a box."""
    left, top = max(0.0, box.x), max(0.0, box.y)
    right = min(float(viewport.width), box.x + box.width)
    bottom = min(float(viewport.height), box.y + box.height)
    return MarkView(
        "box",
        left / viewport.width,
        top / viewport.height,
        max(0.0, right - left) / viewport.width,
        max(0.0, bottom - top) / viewport.height,
    )


def _arrow(action: ActionRecord, x: float, y: float) -> tuple[MarkView, ...]:
    direction = action.arguments.get("direction")
    if not isinstance(direction, str) or direction not in _DIRECTIONS:
        return ()
    width, height = _DIRECTIONS[direction]
    return (MarkView("arrow", x, y, width, height, label=direction),)


def _label(action: ActionRecord) -> str:
    written = action.arguments.get(_LABELS.get(action.key, ""))
    if isinstance(written, int | float):
        return f"{written:g}"
    return printable_line(written, LABEL_LIMIT) if isinstance(written, str) else ""


def _stored_point(
    action: ActionRecord, mode: str, viewport: Viewport, argument: str = "coordinate"
) -> tuple[int, int] | None:
    """The pixel of the coordinates in a record that has no pixel, in coordinates mode."""
    if mode != "coordinates":
        return None
    match action.arguments.get(argument):
        case [int() | float() as x, int() | float() as y] if (
            0 <= x <= FULL_SCALE and 0 <= y <= FULL_SCALE
        ):
            return Point(x, y).pixel(viewport)
        case _:
            return None


FIRST_PHASE, LAST_PHASE = "navigate", "reward"
_NEGLIGIBLE = 1e-6
"""Seconds: smaller differences are rounding errors of sums."""


def build_timeline(
    timings: Sequence[Mapping[str, float]], phases: Mapping[str, float], seconds: float | None
) -> TimelineView | None:
    """The timeline of steps with these timings; None where no times were stored.

    Without `phases` and `seconds`, as in a `.pt` file, it covers the steps only. A timeline of very
    many steps only has the first spans; its totals are complete.
    """
    left = _beyond_steps(timings, phases)
    timeline = _TimelineBuilder()
    timeline.add(WAITING, left.pop(WAITING, 0.0), label="waiting for a browser")
    timeline.add(FIRST_PHASE, left.pop(FIRST_PHASE, 0.0), step=0, label="start page")
    for index, step in enumerate(timings):
        for phase, took in step.items():
            timeline.add(phase, took, step=index)
    judging = left.pop(LAST_PHASE, 0.0)
    for phase, took in left.items():
        timeline.add(phase, took, step=len(timings) - 1 if timings else None, label="unfinished")
    timeline.add(LAST_PHASE, judging, label="whole rollout")
    if not timeline.spans:
        return None
    spans = tuple(timeline.spans[:MOST_SPANS])
    return TimelineView(
        seconds=timeline.end if seconds is None else seconds,
        complete=len(spans) == len(timeline.spans),
        spans=spans,
        totals=timeline.totals,
        exact=True,
    )


class _TimelineBuilder:
    """Adds spans one after another."""

    def __init__(self) -> None:
        self.spans: list[SpanView] = []
        self.totals: dict[str, float] = {}
        self.end = 0.0

    def add(self, phase: str, seconds: float, *, step: int | None = None, label: str = "") -> None:
        if seconds <= _NEGLIGIBLE:
            return
        self.spans.append(SpanView(phase, self.end, seconds, label, step))
        self.totals[phase] = self.totals.get(phase, 0.0) + seconds
        self.end += seconds


def _beyond_steps(
    timings: Sequence[Mapping[str, float]], phases: Mapping[str, float]
) -> dict[str, float]:
    """The time of each phase that the attempt has in addition to its steps."""
    left = dict(phases)
    for step in timings:
        for phase, took in step.items():
            if phase in left:
                left[phase] -= took
    return left
