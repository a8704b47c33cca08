"""The entries that fit a filter, in its order, and the last few of such orders.

Sorting everything takes a tenth of a second where there are hundreds of thousands of entries. Who
goes through a list asks for the same order again and again, so the last few are kept for as long as
the index does not change: eight bytes for each entry.
"""

import sqlite3
import threading
from array import array
from collections import OrderedDict

import msgspec

from rollgym.viewer.queries.filter import BY_RECORD, FIELD_PREFIX, NUMBERS, Filter, Sql
from rollgym.viewer.queries.version import version_of

_KEPT = 4
_NUMBERS = msgspec.json.Decoder(list[int])


def all_entries(connection: sqlite3.Connection, wanted: Filter) -> "array[int]":
    """The numbers of all entries that fit, in order; `EntryId.of` makes their names.

    Whoever exports them need not hold the connection for as long as that takes.
    """
    select, values = ordered(wanted)
    # One JSON array is read several times as fast as so many rows.
    (numbers,) = connection.execute(
        f"SELECT json_group_array(id) FROM ({select})",  # noqa: S608 - see Filter
        values,
    ).fetchone()
    return array("Q", _NUMBERS.decode(numbers))


class Orders:
    """The orders of one source that were asked for last. For any thread."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[int, Filter], array[int]] = OrderedDict()
        self._lock = threading.Lock()

    def known(self, connection: sqlite3.Connection, wanted: Filter) -> "array[int] | None":
        """The order if it is kept."""
        with self._lock:
            key = _key(connection, wanted)
            if key in self._kept:
                self._kept.move_to_end(key)
            return self._kept.get(key)

    def of(self, connection: sqlite3.Connection, wanted: Filter) -> "array[int]":
        """The order, from now on kept. It is not to be changed."""
        order = self.known(connection, wanted)
        if order is None:
            order = all_entries(connection, wanted)
            with self._lock:
                self._kept[_key(connection, wanted)] = order
                while len(self._kept) > _KEPT:
                    self._kept.popitem(last=False)
        return order


def ordered(wanted: Filter) -> Sql:
    """A statement for the numbers in order, as `id`.

    Entries without a value come last, whichever way it goes; those with the same one are in the
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
