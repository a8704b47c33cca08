"""The grid of a run: one character for each rollout, in the order of tasks and repeats.

The characters are those of the task monitor, so both have the same legend. If the number of
rollouts is known, a rollout keeps its cell from the start of the run to its end: its task times the
repeats, plus its repeat. If that is not possible (when tasks were left out, for example), finished
rollouts come first, in order, and the others follow. If there are more rollouts than cells, a cell
stands for several rollouts and shows their most frequent state.
"""

import sqlite3
from collections import Counter
from collections.abc import Sequence
from math import inf
from operator import itemgetter
from typing import NamedTuple

import msgspec

from rollgym.viewer.queries.tasks import IS_BLOCKED

MOST_CELLS = 10_000
_NOT_STARTED = "."
_STATES = {
    "!": "failed",
    "x": "failure",
    "#": "blocked",
    "+": "success",
    "-": "omitted",
    "=": "earlier",
    _NOT_STARTED: "not_started",
}
"""The state of each character. Of equally frequent states the first is shown."""
_ENDS = f"""
SELECT json_group_array(task), json_group_array(repeat), json_group_array(id),
       group_concat(
           CASE status WHEN 'failed' THEN '!' WHEN 'omitted' THEN '-' ELSE
           CASE success WHEN 1 THEN '+' WHEN 0 THEN 'x' ELSE
           CASE WHEN {IS_BLOCKED} THEN '#' ELSE '=' END END END, '')
FROM entry NOT INDEXED
WHERE is_outcome = 1 AND status IN ('completed', 'failed', 'omitted')
"""  # noqa: S608 - names of our own
_INDEXES = msgspec.json.Decoder(list[int | None])
_NUMBERS = msgspec.json.Decoder(list[int])
_Index = int | None


class Grid(msgspec.Struct, frozen=True):
    """The grid. `counts` has the rollouts by state, without empty states.

    `entries` has the entry number of each cell up to the last one that has an entry, None for a
    rollout that has not ended. It is empty if a cell stands for several rollouts.
    """

    cells: str
    rollouts_per_cell: int
    counts: dict[str, int]
    entries: tuple[int | None, ...]


class _End(NamedTuple):
    """The content of a cell."""

    mark: str = _NOT_STARTED
    entry: int | None = None


def grid(connection: sqlite3.Connection, expected: int | None, repeats: int | None = None) -> Grid:
    """The grid of the rollouts that ended, and of those that are `expected` to follow.

    `repeats` is the number of repeats of each task, if it is known.
    """
    tasks, numbers_of_repeats, numbers, marks = connection.execute(_ENDS).fetchone()
    places = list(zip(_INDEXES.decode(tasks), _INDEXES.decode(numbers_of_repeats), strict=True))
    ends = list(map(_End, marks or "", _NUMBERS.decode(numbers)))
    cells = _placed(places, ends, expected or 0, repeats) or _in_order(places, ends)
    entries = [cell.entry for cell in cells]
    shown = [cell.mark for cell in cells]
    shown.extend(_NOT_STARTED * ((expected or 0) - len(shown)))
    counts = Counter(shown)
    each = max(1, -(-len(shown) // MOST_CELLS))
    while entries and entries[-1] is None:
        entries.pop()
    return Grid(
        "".join(shown if each == 1 else _condensed(shown, each)),
        each,
        {state: counts[mark] for mark, state in _STATES.items() if counts[mark]},
        tuple(entries) if each == 1 else (),
    )


def _placed(
    places: Sequence[tuple[_Index, _Index]],
    ends: Sequence[_End],
    expected: int,
    repeats: int | None,
) -> list[_End]:
    """Every rollout in its own cell; empty if that is not possible for all of them."""
    known = [(task, repeat) for task, repeat in places if task is not None and repeat is not None]
    if not known or len(known) < len(places):
        return []
    repeats = max(repeats or 1, 1 + max(repeat for _, repeat in known))
    if expected % repeats or (1 + max(task for task, _ in known)) * repeats > expected:
        return []
    cells = [_End()] * expected
    for (task, repeat), end in zip(known, ends, strict=True):
        cells[task * repeats + repeat] = end
    return cells


def _in_order(places: Sequence[tuple[_Index, _Index]], ends: Sequence[_End]) -> list[_End]:
    """By task and repeat; rollouts without them last."""
    order = [tuple(inf if index is None else index for index in place) for place in places]
    return [end for _, end in sorted(zip(order, ends, strict=True), key=itemgetter(0))]


def _condensed(marks: Sequence[str], each: int) -> list[str]:
    order = {mark: -place for place, mark in enumerate(_STATES)}
    cells = []
    for begin in range(0, len(marks), each):
        counts = Counter(marks[begin : begin + each])
        cells.append(max(counts, key=lambda mark: (counts[mark], order[mark])))
    return cells
