"""The list of entries: one page of it, and the entries before and after an entry.

The order is total, so an offset always means the same entry. A page near the start is read with
SQLite's LIMIT, which only sorts as many entries as needed. Further down, sorting everything once is
faster: the page is then cut from the whole order. The last few orders are kept until the index
changes, with eight bytes for each entry, because a reader who pages through a list requests the
same order many times. The columns of the entries are only read for the page.
"""

import sqlite3
import threading
from array import array
from collections import OrderedDict
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

import msgspec

from rollgym.viewer.errors import RequestError
from rollgym.viewer.index.database import version_of
from rollgym.viewer.queries.filter import BY_RECORD, FIELD_PREFIX, NUMBERS, Filter, Sql
from rollgym.viewer.queries.search import SearchProgress
from rollgym.viewer.source import EntryId
from rollgym.viewer.summary import EntryStatus

_KEPT = 4
_NUMBERS = msgspec.json.Decoder(list[int])


def all_entries(connection: sqlite3.Connection, wanted: Filter) -> "array[int]":
    """The numbers of all entries that match, in order; `EntryId.of` makes their ids.

    An export uses them without holding the connection.
    """
    select, values = ordered(wanted)
    # One JSON array is read several times as fast as as many rows.
    (numbers,) = connection.execute(
        f"SELECT json_group_array(id) FROM ({select})",  # noqa: S608 - see Filter
        values,
    ).fetchone()
    return array("Q", _NUMBERS.decode(numbers))


class Orders:
    """The orders of one source that were requested last. For any thread."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[int, Filter], array[int]] = OrderedDict()
        self._lock = threading.Lock()

    def known(self, connection: sqlite3.Connection, wanted: Filter) -> "array[int] | None":
        """The order if it is kept, else None."""
        with self._lock:
            key = _key(connection, wanted)
            if key in self._kept:
                self._kept.move_to_end(key)
            return self._kept.get(key)

    def of(self, connection: sqlite3.Connection, wanted: Filter) -> "array[int]":
        """The order, which is kept from now on. Do not change it."""
        order = self.known(connection, wanted)
        if order is None:
            order = all_entries(connection, wanted)
            with self._lock:
                self._kept[_key(connection, wanted)] = order
                while len(self._kept) > _KEPT:
                    self._kept.popitem(last=False)
        return order


def ordered(wanted: Filter) -> Sql:
    """A statement that selects the entry numbers in order, as `id`.

    Entries without a value come last in both directions; entries with equal values are in the
    order of their numbers.
    """
    where, values = wanted.where()
    key, field = _sort_key(wanted.sort)
    tables = "entry" if wanted.is_selective else "entry NOT INDEXED"
    if wanted.sort == "title" or field:
        tables += " JOIN words ON words.entry = entry.id"
    direction = "DESC" if wanted.descending else "ASC"
    order = f"{key} {direction} NULLS LAST, entry.id"
    if wanted.sort == BY_RECORD:
        order = f"entry.id {direction}"
    statement = f"SELECT entry.id AS id FROM {tables} WHERE {where} ORDER BY {order}"  # noqa: S608
    return statement, (*values, *field)


def _sort_key(sort: str) -> Sql:
    if sort == "title":
        return "words.title", ()
    if sort.startswith(FIELD_PREFIX):
        return "json_extract(words.fields, ?)", (f'$."{sort.removeprefix(FIELD_PREFIX)}"',)
    return NUMBERS.get(sort, f"entry.{sort}"), ()


def _key(connection: sqlite3.Connection, wanted: Filter) -> tuple[int, Filter]:
    return version_of(connection), msgspec.structs.replace(wanted, offset=0, limit=1)


_SHALLOW = 2_000
_COLUMNS = (
    "entry.id, status, is_outcome, task, repeat, attempt, reward, success, entry.kind, cause.text, "
    "steps, tool_calls, input_tokens, output_tokens, seconds, started, model, ending, agent, "
    "domain, difficulty, coalesce(title, ''), coalesce(detail, ''), coalesce(fields, '{}'), length"
)


class ListedEntry(msgspec.Struct, frozen=True):
    """A line of the list. `fields` is a JSON object, `bytes` the length of the record.

    For an unreadable record `title` names the line, and `detail` says what is wrong with it.
    """

    id: str
    status: str
    is_outcome: bool
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


class RolloutListing(msgspec.Struct, frozen=True):
    """A page. `total` counts all entries that match, `unreadable` those that are not records."""

    total: int
    unreadable: int
    entries: tuple[ListedEntry, ...]
    search: SearchProgress | None = None


class Neighbours(msgspec.Struct, frozen=True):
    """The entries beside an entry in a list; all None except `total` if it is not in the list.

    `position` counts from 1.
    """

    previous: str | None
    next: str | None
    position: int | None
    total: int


def listing(
    connection: sqlite3.Connection,
    wanted: Filter,
    orders: Orders,
    search: SearchProgress | None = None,
) -> RolloutListing:
    """The page that the filter selects. `search` is passed on."""
    begin, end = wanted.offset, wanted.offset + wanted.limit
    order = orders.known(connection, wanted)
    if order is None and end > _SHALLOW and wanted.sort != BY_RECORD:
        order = orders.of(connection, wanted)
    where, values = wanted.where()
    count = f"SELECT count(*) FROM entry WHERE {where}"  # noqa: S608 - see Filter
    (unreadable,) = connection.execute(
        f"{count} AND entry.status = ?", (*values, EntryStatus.UNREADABLE)
    ).fetchone()
    if order is not None:
        return RolloutListing(
            len(order), unreadable, _entries(connection, order[begin:end]), search
        )
    (total,) = connection.execute(count, values).fetchone()
    select, values = ordered(wanted)
    page = connection.execute(f"{select} LIMIT ? OFFSET ?", (*values, wanted.limit, begin))
    return RolloutListing(
        total, unreadable, _entries(connection, [number for (number,) in page]), search
    )


def neighbours(
    connection: sqlite3.Connection, wanted: Filter, orders: Orders, entry: EntryId
) -> Neighbours:
    """The entries before and after an entry in the order of the filter.

    Raises RequestError (404) if there is no such entry.
    """
    if not _exists(connection, entry):
        raise RequestError(HTTPStatus.NOT_FOUND, f"There is no record {entry} in this source.")
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


def _entries(connection: sqlite3.Connection, numbers: Sequence[int]) -> tuple[ListedEntry, ...]:
    """The columns of entries, in the order of the numbers."""
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM json_each(?) AS wanted "  # noqa: S608 - our own names
        "JOIN entry ON entry.id = wanted.value "
        "LEFT JOIN words ON words.entry = entry.id LEFT JOIN cause ON cause.id = entry.cause "
        "ORDER BY wanted.key",
        (msgspec.json.encode(list(numbers)).decode(),),
    )
    return tuple(_entry(row) for row in rows)


def _entry(row: tuple[Any, ...]) -> ListedEntry:
    entry = dict(zip(ListedEntry.__struct_fields__, row, strict=True))
    entry["id"] = str(EntryId.of(entry["id"]))
    entry["is_outcome"] = bool(entry["is_outcome"])
    entry["success"] = None if entry["success"] is None else bool(entry["success"])
    entry["fields"] = msgspec.Raw(entry["fields"].encode())
    return ListedEntry(**entry)


def _exists(connection: sqlite3.Connection, entry: EntryId) -> bool:
    found = connection.execute("SELECT 1 FROM entry WHERE id = ?", (entry.number,))
    return found.fetchone() is not None
