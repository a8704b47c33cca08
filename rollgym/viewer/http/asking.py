"""A filter together with what it is looked up in.

What `q` matches is not in the index: a search goes through the records in the background, and the
filter gets what it has found so far.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from rollgym.viewer.queries.filter import Filter
from rollgym.viewer.queries.search import Search
from rollgym.viewer.shelf import Shelf


class Asked(NamedTuple):
    """`search` says how far the search has come, where there is one."""

    connection: sqlite3.Connection
    wanted: Filter
    search: Search | None


@contextmanager
def asking(shelf: Shelf, wanted: Filter) -> Iterator[Asked]:
    """Raises StorageError, PageError. For a thread."""
    search = None
    if wanted.q:
        search, entries = shelf.searches.find(wanted.q, shelf.index())
        wanted = wanted.among(entries)
    with shelf.reading() as connection:
        yield Asked(connection, wanted, search)
