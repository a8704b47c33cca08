"""The grid of a run: one character for each rollout, in the order of tasks and repeats.

The characters are those of the task monitor, so that one legend serves both. Where the number of
rollouts is known a rollout keeps its cell from the beginning of the run to its end: its task times
the repeats, plus its repeat. Where that does not work out (tasks were left out, say) those that
ended come first, in order, and the others follow. With more rollouts than cells a cell stands for
several, and shows the state of most.
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
"""What each character stands for. Of states that are equally frequent the first is shown."""
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
    """`counts` are of rollouts by state; states that none is in are left out.

    `entries` has the number of each cell's entry, None where its rollout has not ended. It ends
    with the last that has; where a cell stands for several it is empty.
    """

    cells: str
    rollouts_per_cell: int
    counts: dict[str, int]
    entries: tuple[int | None, ...]


class _End(NamedTuple):
    """What is in a cell."""

    mark: str = _NOT_STARTED
    entry: int | None = None


def grid(connection: sqlite3.Connection, expected: int | None, repeats: int | None = None) -> Grid:
    """Of the rollouts that ended, and as many more as are `expected`.

    `repeats` is how many there are of each task, where that is known.
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
    """Every rollout in its own cell; nothing where they do not all have one."""
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
    """By task and repeat, those without either last."""
    order = [tuple(inf if index is None else index for index in place) for place in places]
    return [end for _, end in sorted(zip(order, ends, strict=True), key=itemgetter(0))]


def _condensed(marks: Sequence[str], each: int) -> list[str]:
    order = {mark: -place for place, mark in enumerate(_STATES)}
    cells = []
    for begin in range(0, len(marks), each):
        counts = Counter(marks[begin : begin + each])
        cells.append(max(counts, key=lambda mark: (counts[mark], order[mark])))
    return cells
