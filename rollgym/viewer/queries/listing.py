"""The list of entries: a page of it, and what stands before and after an entry.

The order is total, so an offset always means the same place. A page near the beginning is found
with SQLite's LIMIT, for which it holds only as many entries as are wanted. That becomes slow
further down, where sorting everything at once is faster: then the page is cut from the whole order,
which is kept for the next page. What is shown of the entries is read only for the page.
"""

import sqlite3
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

import msgspec

from rollgym.viewer.errors import PageError
from rollgym.viewer.index import EntryId
from rollgym.viewer.queries.filter import BY_RECORD, Filter
from rollgym.viewer.queries.orders import Orders, ordered
from rollgym.viewer.queries.search import Search
from rollgym.viewer.summary import Status

_SHALLOW = 2_000
_COLUMNS = (
    "entry.id, status, standing, task, repeat, attempt, reward, success, entry.kind, cause.text, "
    "steps, tool_calls, input_tokens, output_tokens, seconds, started, model, ending, agent, "
    "domain, difficulty, coalesce(title, ''), coalesce(detail, ''), coalesce(fields, '{}'), length"
)


class Entry(msgspec.Struct, frozen=True):
    """A line of the list. `fields` is a JSON object, `bytes` how long the record is.

    Of what is no record `title` says which line it is, and `detail` what is wrong with it.
    """

    id: str
    status: str
    standing: bool
    task: int | None
    repeat: int | None
    attempt: int | None
    reward: float | None
    success: bool | None
    kind: str | None
    cause: str | None
    steps: int | None
    tool_calls: int | None
    input_tokens: int | None
    output_tokens: int | None
    seconds: float | None
    started: float | None
    model: str | None
    ending: str | None
    agent: str | None
    domain: str | None
    difficulty: int | None
    title: str
    detail: str
    fields: msgspec.Raw
    bytes: int


class Listing(msgspec.Struct, frozen=True):
    """A page. `total` counts all that fit the filter, `unreadable` those of them not records."""

    total: int
    unreadable: int
    entries: tuple[Entry, ...]
    search: Search | None = None


class Neighbours(msgspec.Struct, frozen=True):
    """What stands beside an entry in a list; all None but `total` where it is not in it.

    `position` counts from 1.
    """

    previous: str | None
    next: str | None
    position: int | None
    total: int


def listing(
    connection: sqlite3.Connection, wanted: Filter, orders: Orders, search: Search | None = None
) -> Listing:
    """The page that the filter asks for. `search` goes along."""
    begin, end = wanted.offset, wanted.offset + wanted.limit
    order = orders.known(connection, wanted)
    if order is None and end > _SHALLOW and wanted.sort != BY_RECORD:
        order = orders.of(connection, wanted)
    where, values = wanted.where()
    count = f"SELECT count(*) FROM entry WHERE {where}"  # noqa: S608 - see Filter
    (unreadable,) = connection.execute(
        f"{count} AND entry.status = ?", (*values, Status.UNREADABLE)
    ).fetchone()
    if order is not None:
        return Listing(len(order), unreadable, _entries(connection, order[begin:end]), search)
    (total,) = connection.execute(count, values).fetchone()
    select, values = ordered(wanted)
    page = connection.execute(f"{select} LIMIT ? OFFSET ?", (*values, wanted.limit, begin))
    return Listing(total, unreadable, _entries(connection, [number for (number,) in page]), search)


def neighbours(
    connection: sqlite3.Connection, wanted: Filter, orders: Orders, entry: EntryId
) -> Neighbours:
    """What comes before and after an entry in the order of the filter.

    Raises PageError (404) where there is no such entry.
    """
    if not _exists(connection, entry):
        raise PageError(HTTPStatus.NOT_FOUND, f"there is no record {entry} in this source")
    order = orders.of(connection, wanted)
    try:
        place = order.index(entry.number)
    except ValueError:
        return Neighbours(None, None, None, len(order))
    return Neighbours(
        str(EntryId.of(order[place - 1])) if place else None,
        str(EntryId.of(order[place + 1])) if place + 1 < len(order) else None,
        place + 1,
        len(order),
    )


def _entries(connection: sqlite3.Connection, numbers: Sequence[int]) -> tuple[Entry, ...]:
    """What is shown of entries, in the order of the numbers."""
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM json_each(?) AS wanted "  # noqa: S608 - names of our own
        "JOIN entry ON entry.id = wanted.value "
        "LEFT JOIN words ON words.entry = entry.id LEFT JOIN cause ON cause.id = entry.cause "
        "ORDER BY wanted.key",
        (msgspec.json.encode(list(numbers)).decode(),),
    )
    return tuple(_entry(row) for row in rows)


def _entry(row: tuple[Any, ...]) -> Entry:
    entry = dict(zip(Entry.__struct_fields__, row, strict=True))
    entry["id"] = str(EntryId.of(entry["id"]))
    entry["standing"] = bool(entry["standing"])
    entry["success"] = None if entry["success"] is None else bool(entry["success"])
    entry["fields"] = msgspec.Raw(entry["fields"].encode())
    return Entry(**entry)


def _exists(connection: sqlite3.Connection, entry: EntryId) -> bool:
    found = connection.execute("SELECT 1 FROM entry WHERE id = ?", (entry.number,))
    return found.fetchone() is not None
