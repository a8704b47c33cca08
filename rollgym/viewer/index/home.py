"""Where the database of a source is, and where it goes when a place fails.

An index is never a reason to show nothing: one that is damaged is made again at its place, once;
after that, and where a place cannot be used at all, the next one is taken, and a temporary one in
the end.
"""

import sqlite3
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from rollgym.store.errors import StorageError, storage_error
from rollgym.viewer.index.builder import relative_name
from rollgym.viewer.index.database import Database, identity_of, is_damage
from rollgym.viewer.index.places import lasting_places, temporary_place
from rollgym.viewer.source import Source


class Home:
    """The database that is open now. One thread at a time changes which one that is."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._identity = identity_of(_described(source))
        self._places = lasting_places(source)
        self._temporary: TemporaryDirectory[str] | None = None
        self._opened: Database | None = None
        self._mended: Path | None = None

    @property
    def database(self) -> Database:
        """Raises StorageError where none is open."""
        if self._opened is None:
            raise StorageError(f"the index of {self._source.path} is not open")
        return self._opened

    def open(self) -> None:
        """Find the database, or make it. Raises StorageError where there is no place for one."""
        if self._opened is None:
            self._places = lasting_places(self._source)
            self._open_next()

    def open_again(self) -> Database:
        """The database at the same place, where there is another file now. Raises StorageError."""
        path = self.database.path
        self._close_database()
        try:
            self._opened = Database(path, self._identity)
        except StorageError:
            self._open_next()
        return self.database

    def mend(self, error: sqlite3.Error) -> None:
        """Make a damaged database anew; where that does not help, go elsewhere.

        Raises StorageError.
        """
        database = self.database
        if is_damage(error) and database.leading and self._mended != database.path:
            self._mended = database.path
            database.discard()
            self.open_again()
        else:
            self._close_database()
            self._open_next()

    def close(self) -> None:
        self._close_database()
        if self._temporary is not None:
            self._temporary.cleanup()
            self._temporary = None

    def _open_next(self) -> None:
        for path in self._places:
            try:
                self._opened = Database(path, self._identity)
            except StorageError:
                continue
            return
        try:
            path, self._temporary = temporary_place()
        except OSError as error:
            raise storage_error(
                error, self._source.path, "finding a place for its index"
            ) from error
        self._opened = Database(path, self._identity)

    def _close_database(self) -> None:
        if self._opened is not None:
            self._opened.close()
            self._opened = None


def _described(source: Source) -> bytes:
    """What an index is of: its parts, with their formats."""
    named = [(relative_name(source, part.path), part.format.name) for part in source.parts]
    inputs = None if source.inputs is None else relative_name(source, source.inputs)
    return msgspec.json.encode((inputs, named))
