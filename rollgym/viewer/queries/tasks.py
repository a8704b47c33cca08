"""The table of tasks: each with its repeats as a row of cells.

A task is known by its index, or, where a file has none, by its key: those follow in the order in
which they first appear. Entries that have neither are of no task. Only those that fit the filter
count, and only they have cells.
"""

import sqlite3
from collections.abc import Sequence

import msgspec

from rollgym.viewer.index import EntryId
from rollgym.viewer.queries.blocked import IS_BLOCKED
from rollgym.viewer.queries.filter import Filter
from rollgym.viewer.queries.search import Search

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
"""What the table can be sorted by; `spread` is the variance of a task's rewards."""


class Cell(msgspec.Struct, frozen=True, omit_defaults=True):
    """One repeat. `blocked` tells that a page blocked it."""

    id: str
    repeat: int | None
    status: str
    reward: float | None
    success: bool | None
    blocked: bool = False


class TaskLine(msgspec.Struct, frozen=True):
    """A task. `mean` is that of its rewards, None where there are none."""

    task: int | None
    task_key: str
    title: str
    domain: str
    difficulty: int | None
    rollouts: int
    mean: float | None
    successes: int
    judged: int
    cells: tuple[Cell, ...]


_SHOWN = TaskLine.__struct_fields__[:-1]


class Tasks(msgspec.Struct, frozen=True):
    """A page of the table. `total` counts all tasks that have an entry which fits."""

    total: int
    tasks: tuple[TaskLine, ...]
    search: Search | None = None


def tasks(connection: sqlite3.Connection, wanted: Filter, search: Search | None = None) -> Tasks:
    """The page that a filter made with `TASK_SORTS` asks for. `search` goes along."""
    where, values = wanted.where()
    rows = connection.execute(
        _statement(where, wanted), (*values, wanted.limit, wanted.offset)
    ).fetchall()
    if rows:
        total = rows[0][0]
    else:  # behind the end
        (total,) = connection.execute(
            f"SELECT count(DISTINCT {_KEY}) FROM entry WHERE {where}",  # noqa: S608 - see Filter
            values,
        ).fetchone()
    cells = _cells(connection, wanted, [key for _, key, *_ in rows])
    lines = (
        TaskLine(**dict(zip(_SHOWN, shown, strict=True)), cells=tuple(cells[key]))
        for _, key, *shown in rows
    )
    return Tasks(total, tuple(lines), search)


def _statement(where: str, wanted: Filter) -> str:
    """Counts all tasks, then reads what is shown of those on the page, and of their first entries.

    Titles are looked up for all tasks only where they are what is sorted by.
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
) -> dict[int | str, list[Cell]]:
    where, values = wanted.where()
    indexes = [key for key in keys if isinstance(key, int)]
    names = [key for key in keys if isinstance(key, str)]
    cells: dict[int | str, list[Cell]] = {key: [] for key in keys}
    for condition, some in (("task", indexes), ("task IS NULL AND entry.task_key", names)):
        if not some:
            continue
        rows = connection.execute(
            f"SELECT {_KEY}, entry.id, repeat, status, reward, success, "  # noqa: S608
            f"{IS_BLOCKED} FROM entry "
            f"WHERE entry.{condition} IN (SELECT value FROM json_each(?)) AND {where} "
            "ORDER BY repeat NULLS LAST, entry.id",
            (msgspec.json.encode(some).decode(), *values),
        )
        for key, number, repeat, status, reward, success, blocked in rows:
            if len(cells[key]) < MOST_CELLS:
                id_, good = str(EntryId.of(number)), None if success is None else bool(success)
                cells[key].append(Cell(id_, repeat, status, reward, good, bool(blocked)))
    return cells
