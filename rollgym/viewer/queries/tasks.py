"""The table of tasks with their repeats, the repeats and attempts beside one entry, and the grid.

A task is identified by its index or, where a file has none, by its key; tasks without an index
follow in the order of their first entries. Entries with neither belong to no task. Only entries
that match the filter count, and only they have cells.

*The grid of a run* has one character for each rollout, in the order of tasks and repeats. The
characters are those of the task monitor, so both have the same legend. If the number of rollouts is
known, a rollout keeps its cell from the start of the run to its end: its task times the repeats,
plus its repeat. If that is not possible (when tasks were left out, for example), finished rollouts
come first, in order, and the others follow. If there are more rollouts than cells, a cell stands
for several rollouts and shows their most frequent state.
"""

import sqlite3
from collections import Counter
from collections.abc import Sequence
from math import inf
from operator import itemgetter
from typing import Any, NamedTuple

import msgspec

from rollgym.viewer.queries.filter import Filter
from rollgym.viewer.queries.search import SearchProgress
from rollgym.viewer.source import EntryId

IS_BLOCKED = """(
    status = 'completed' AND success IS NULL
    AND EXISTS (SELECT 1 FROM field WHERE name = 'is_blocked')
    AND (SELECT json_extract(fields, '$.is_blocked') FROM words WHERE words.entry = entry.id) IS 1
)"""
"""SQL that is 1 for an `entry` that a page blocked, else 0.

A blocked rollout is completed but was not judged: its success is unknown. Most sources do not have
the field at all.
"""


MOST_CELLS = 256
_KEY = "coalesce(entry.task, nullif(entry.task_key, ''))"
_SPREAD = "max(avg(reward * reward) - avg(reward) * avg(reward), 0)"
_ORDERS = {
    "task": "typeof(key), CASE typeof(key) WHEN 'integer' THEN key ELSE first END",
    "mean": "mean",
    "spread": "spread",
    "rollouts": "rollouts",
    "title": "title",
    "successes": "successes",
}
TASK_SORTS = tuple(_ORDERS)
"""The columns that the table can be sorted by; `spread` is the variance of a task's rewards."""


class RepeatCell(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The outcome of one repeat. `blocked` says that a page blocked it."""

    id: str
    repeat: int | None
    status: str
    reward: float | None
    success: bool | None
    blocked: bool = False


class TaskLine(msgspec.Struct, frozen=True):
    """A task. `mean` is its mean reward; None where it has no rewards."""

    task: int | None
    task_key: str
    title: str
    domain: str
    difficulty: int | None
    rollouts: int
    mean: float | None
    successes: int
    judged: int
    cells: tuple[RepeatCell, ...]


_SHOWN = TaskLine.__struct_fields__[:-1]


class TaskPage(msgspec.Struct, frozen=True):
    """A page of the table. `total` counts all tasks with an entry that matches."""

    total: int
    tasks: tuple[TaskLine, ...]
    search: SearchProgress | None = None


def tasks(
    connection: sqlite3.Connection, wanted: Filter, search: SearchProgress | None = None
) -> TaskPage:
    """The page that a filter with `TASK_SORTS` selects. `search` is passed on."""
    where, values = wanted.where()
    rows = connection.execute(
        _statement(where, wanted), (*values, wanted.limit, wanted.offset)
    ).fetchall()
    if rows:
        total = rows[0][0]
    else:  # the page is beyond the end
        (total,) = connection.execute(
            f"SELECT count(DISTINCT {_KEY}) FROM entry WHERE {where}",  # noqa: S608 - see Filter
            values,
        ).fetchone()
    cells = _cells(connection, wanted, [key for _, key, *_ in rows])
    lines = (
        TaskLine(**dict(zip(_SHOWN, shown, strict=True)), cells=tuple(cells[key]))
        for _, key, *shown in rows
    )
    return TaskPage(total, tuple(lines), search)


def _statement(where: str, wanted: Filter) -> str:
    """Counts all tasks, then reads the columns of those on the page from their first entries.

    Titles are read for all tasks only if they are sorted by.
    """
    direction = "DESC" if wanted.descending else "ASC"
    *before, column = _ORDERS[wanted.sort].split(", ")
    order = ", ".join([*before, f"{column} {direction} NULLS LAST", "first"])
    titled = "LEFT JOIN words ON words.entry = first" if wanted.sort == "title" else ""
    return f"""
        WITH every AS MATERIALIZED (
            SELECT {_KEY} AS key, count(*) AS rollouts, avg(reward) AS mean,
                   coalesce(sum(success), 0) AS successes, count(success) AS judged,
                   {_SPREAD} AS spread, min(entry.id) AS first
            FROM entry NOT INDEXED WHERE {where} AND key IS NOT NULL GROUP BY key
        ), page AS MATERIALIZED (
            SELECT every.* FROM every {titled} ORDER BY {order} LIMIT ? OFFSET ?
        )
        SELECT (SELECT count(*) FROM every), page.key,
               task, coalesce(task_key, ''), coalesce(words.title, ''), coalesce(domain, ''),
               difficulty, rollouts, mean, successes, judged
        FROM page JOIN entry ON entry.id = first LEFT JOIN words ON words.entry = first
        ORDER BY {order}
    """  # noqa: S608 - see Filter


def _cells(
    connection: sqlite3.Connection, wanted: Filter, keys: Sequence[int | str]
) -> dict[int | str, list[RepeatCell]]:
    where, values = wanted.where()
    indexes = [key for key in keys if isinstance(key, int)]
    names = [key for key in keys if isinstance(key, str)]
    cells: dict[int | str, list[RepeatCell]] = {key: [] for key in keys}
    for condition, some in (("task", indexes), ("task IS NULL AND entry.task_key", names)):
        if not some:
            continue
        rows = connection.execute(
            f"SELECT {_KEY}, {_CELL} FROM entry "  # noqa: S608 - our own names
            f"WHERE entry.{condition} IN (SELECT value FROM json_each(?)) AND {where} "
            "ORDER BY repeat NULLS LAST, entry.id",
            (msgspec.json.encode(some).decode(), *values),
        )
        for key, *cell in rows:
            if len(cells[key]) < MOST_CELLS:
                cells[key].append(RepeatCell(**_cell(cell)))
    return cells


_CELL = f"entry.id, repeat, status, reward, success, {IS_BLOCKED}"


def _cell(columns: Sequence[Any]) -> dict[str, Any]:
    """The fields of a `RepeatCell` from the columns of `_CELL`."""
    cell = dict(zip(RepeatCell.__struct_fields__, columns, strict=True))
    success = None if cell["success"] is None else bool(cell["success"])
    identity = str(EntryId.of(cell["id"]))
    return cell | {"id": identity, "success": success, "blocked": bool(cell["blocked"])}


MOST_RELATED = 1_000


class RepeatOutcome(RepeatCell, frozen=True, omit_defaults=True, kw_only=True):
    """The outcome of one repeat, with its last attempt."""

    attempt: int | None


class AttemptSummary(msgspec.Struct, frozen=True):
    """One attempt at a rollout."""

    id: str
    attempt: int | None
    status: str
    kind: str | None
    detail: str
    seconds: float | None
    started: float | None


class RelatedEntries(msgspec.Struct, frozen=True):
    """The entries beside one entry, which is included; empty where it has no task or repeat."""

    is_outcome: bool
    siblings: tuple[RepeatOutcome, ...]
    attempts: tuple[AttemptSummary, ...]


def related(connection: sqlite3.Connection, entry: EntryId) -> RelatedEntries:
    """The repeats and attempts beside an entry. Raises KeyError if there is no such entry."""
    found = connection.execute(
        "SELECT is_outcome, task, repeat FROM entry WHERE id = ?", (entry.number,)
    ).fetchone()
    if found is None:
        raise KeyError(str(entry))
    is_outcome, task, repeat = found
    return RelatedEntries(
        bool(is_outcome),
        tuple(repeats(connection, task)) if task is not None else (),
        tuple(_attempts(connection, task, repeat)) if None not in (task, repeat) else (),
    )


def repeats(connection: sqlite3.Connection, task: int) -> list[RepeatOutcome]:
    """The outcomes of a task, in the order of their repeats."""
    rows = connection.execute(
        f"SELECT attempt, {_CELL} FROM entry "  # noqa: S608 - our own names
        "WHERE task = ? AND is_outcome ORDER BY repeat NULLS LAST, id LIMIT ?",
        (task, MOST_RELATED),
    )
    return [RepeatOutcome(attempt=attempt, **_cell(cell)) for attempt, *cell in rows]


def _attempts(connection: sqlite3.Connection, task: int, repeat: int) -> list[AttemptSummary]:
    rows = connection.execute(
        "SELECT id, attempt, status, kind, coalesce(detail, ''), seconds, started "
        "FROM entry LEFT JOIN words ON words.entry = entry.id "
        "WHERE task = ? AND repeat = ? ORDER BY attempt NULLS LAST, id LIMIT ?",
        (task, repeat, MOST_RELATED),
    )
    return [AttemptSummary(str(EntryId.of(number)), *line) for number, *line in rows]


MOST_GRID_CELLS = 10_000
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


class _Cell(NamedTuple):
    """The content of a cell."""

    mark: str = _NOT_STARTED
    entry: int | None = None


def grid(connection: sqlite3.Connection, expected: int | None, repeats: int | None = None) -> Grid:
    """The grid of the rollouts that ended, and of those that are `expected` to follow.

    `repeats` is the number of repeats of each task, if it is known.
    """
    tasks, numbers_of_repeats, numbers, marks = connection.execute(_ENDS).fetchone()
    places = list(zip(_INDEXES.decode(tasks), _INDEXES.decode(numbers_of_repeats), strict=True))
    ends = list(map(_Cell, marks or "", _NUMBERS.decode(numbers)))
    cells = _placed(places, ends, expected or 0, repeats) or _in_order(places, ends)
    entries = [cell.entry for cell in cells]
    shown = [cell.mark for cell in cells]
    shown.extend(_NOT_STARTED * ((expected or 0) - len(shown)))
    counts = Counter(shown)
    each = max(1, -(-len(shown) // MOST_GRID_CELLS))
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
    ends: Sequence[_Cell],
    expected: int,
    repeats: int | None,
) -> list[_Cell]:
    """Every rollout in its own cell; empty if that is not possible for all of them."""
    known = [(task, repeat) for task, repeat in places if task is not None and repeat is not None]
    if not known or len(known) < len(places):
        return []
    repeats = max(repeats or 1, 1 + max(repeat for _, repeat in known))
    if expected % repeats or (1 + max(task for task, _ in known)) * repeats > expected:
        return []
    cells = [_Cell()] * expected
    for (task, repeat), end in zip(known, ends, strict=True):
        cells[task * repeats + repeat] = end
    return cells


def _in_order(places: Sequence[tuple[_Index, _Index]], ends: Sequence[_Cell]) -> list[_Cell]:
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
