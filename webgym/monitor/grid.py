"""The cells of a board: one per rollout while they fit, else one for several.

Three columns per cell are best: a running rollout shows its step, set off from its neighbours.
Where there is no room for that, cells have two columns, then one, and then stand for more than one
rollout each.
"""

from collections.abc import Iterator, Mapping
from math import ceil
from typing import NamedTuple

from rich.segment import Segment
from rich.style import Style

from webgym.monitor.snapshot import merged_cells
from webgym.monitor.states import OVERDUE_MARK, TaskState

STYLES: dict[str, Style] = {
    TaskState.NOT_STARTED.mark: Style(dim=True),
    TaskState.WAITING.mark: Style(color="cyan"),
    TaskState.RUNNING.mark: Style(color="bright_white", bgcolor="blue"),
    TaskState.SUCCESS.mark: Style(color="black", bgcolor="green"),
    TaskState.FAILURE.mark: Style(color="bright_white", bgcolor="red"),
    TaskState.BLOCKED.mark: Style(color="bright_white", bgcolor="magenta"),
    TaskState.FAILED.mark: Style(color="black", bgcolor="yellow"),
    TaskState.OMITTED.mark: Style(color="yellow", dim=True),
    TaskState.EARLIER.mark: Style(color="green", dim=True),
    OVERDUE_MARK: Style(color="black", bgcolor="bright_white", bold=True),
}
_PLAIN = Style()
_RUNNING = TaskState.RUNNING.mark


class Plan(NamedTuple):
    """`width` columns per cell, each of which stands for `merged` cells of the snapshot."""

    width: int
    merged: int
    per_row: int
    rows: int


def plan_cells(count: int, columns: int, rows: int) -> Plan | None:
    """The roomiest way to draw so many cells; None where there is no room at all."""
    if count < 1 or columns < 1 or rows < 1:
        return None
    for width in (3, 2, 1):
        per_row = columns // width
        if per_row and ceil(count / per_row) <= rows:
            return Plan(width, 1, per_row, ceil(count / per_row))
    merged = ceil(count / (columns * rows))
    return Plan(1, merged, columns, ceil(ceil(count / merged) / columns))


def grid_lines(cells: str, steps: Mapping[int, int], plan: Plan) -> Iterator[list[Segment]]:
    """The rows of the grid. `steps` are those of running rollouts, by cell."""
    shown = merged_cells(cells, plan.merged)
    for start in range(0, len(shown), plan.per_row):
        yield list(_runs(shown[start : start + plan.per_row], start, steps, plan.width))


def _runs(row: str, first: int, steps: Mapping[int, int], width: int) -> Iterator[Segment]:
    """Neighbours of one state are one segment: drawing costs as much as there are segments."""
    start = 0
    for end in range(1, len(row) + 1):
        mark = row[start]
        if end < len(row) and row[end] == mark:
            continue
        if mark == _RUNNING and width > 1:
            text = "".join(_step(steps.get(first + index), width) for index in range(start, end))
        else:
            text = mark.center(width) * (end - start)
        yield Segment(text, STYLES.get(mark, _PLAIN))
        start = end


def _step(step: int | None, width: int) -> str:
    return (_RUNNING if step is None else str(min(step, 99))).rjust(2).ljust(width)
