"""The database of an index: opening or creating it, one writer, and connections for readers.

The process that holds the lock beside the database is its *writer*: only it changes rows, and only
it deletes a database that is damaged or has another schema. Other processes read the same database,
and one of them becomes the writer once the lock is free. With SQLite's write-ahead log, readers and
the writer do not wait for each other; on file systems without it they do, for moments.
"""

import contextlib
import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from hashlib import blake2b
from importlib.resources import files
from pathlib import Path
from typing import Any

from rollgym.store import FileLock
from rollgym.store.errors import StorageError, storage_error

SCHEMA = files(__package__).joinpath("schema.sql").read_text("utf-8")
REVISION = 6
"""Increased when columns or kept responses change their meaning but the schema does not."""
CREATION_TIMEOUT = 5.0
BUSY_TIMEOUT = 5.0
_POLL = 0.02
_IDLE_READERS = 4
_READER_PAGES = "-4096"
_WRITER_PAGES = "-16384"
"""Page cache of a connection in KiB, which SQLite wants as a negative number."""
_DISTRUST = "PRAGMA trusted_schema = OFF"
"""An index may come from another person together with the files: its schema is not trusted."""
_BROKEN = frozenset((sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB))
_BUSY = frozenset((sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED))


def is_damage(error: sqlite3.Error) -> bool:
    """Whether the database itself is damaged and must be rebuilt."""
    code: int | None = getattr(error, "sqlite_errorcode", None)
    if code is None:
        return False
    return code & 0xFF in _BROKEN or str(error).startswith("no such table")


def is_busy(error: sqlite3.Error) -> bool:
    """Whether another process was using the database, so that trying again helps."""
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF in _BUSY


def identity_of(described: bytes) -> str:
    """The digest that a database must have to be used: of its source, schema and revision."""
    digest = blake2b(described, digest_size=16)
    digest.update(f"{REVISION}\n{SCHEMA}".encode())
    return digest.hexdigest()


class Database:
    """An index database at one path. `is_writer` says whether this process holds its lock."""

    def __init__(self, path: Path, identity: str) -> None:
        """Raises StorageError where the path cannot be used."""
        self.path = path
        self.is_writer = False
        self._identity = identity
        self._lock = FileLock(path.with_name(f"{path.name}.lock"))
        self._guard = threading.Lock()
        self._idle: list[sqlite3.Connection] = []
        self._closed = False
        try:
            self.is_writer = self._lock.try_acquire()
            self.connection = (
                self._opened_or_created() if self.is_writer else self._opened_when_ready()
            )
            self._file = path.stat()
        except OSError as error:
            self._unlock()
            raise storage_error(error, path, "opening the index") from error
        except sqlite3.Error as error:
            self._unlock()
            raise StorageError(f"{path}: {error} while opening the index") from error
        except StorageError:
            self._unlock()
            raise

    def become_writer(self) -> bool:
        """Try to acquire the lock; returns whether this process holds it. Raises StorageError."""
        if not self.is_writer:
            self.is_writer = self._lock.try_acquire()
        return self.is_writer

    def is_there(self) -> bool:
        """Whether the file at the path is still the one that was opened."""
        try:
            return os.path.samestat(self._file, self.path.stat())
        except OSError:
            return False

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A connection that sees one state of the database while it is held."""
        connection = self._reader()
        try:
            connection.execute("BEGIN")
            yield connection
        finally:
            self._return(connection)

    def discard(self) -> None:
        """Delete the database file; only the writer may. Then close it and open it again."""
        _remove(self.path)

    def close(self) -> None:
        """Close the database. Readers keep their connections until they are done."""
        with self._guard:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()
        with contextlib.suppress(sqlite3.Error):  # on a full disk, the last pages cannot be written
            self.connection.close()
        self._unlock()

    def _unlock(self) -> None:
        if self.is_writer:
            # Removed while it is held, so that no other process can hold the removed file.
            self._lock.path.unlink(missing_ok=True)
            self._lock.release()
            self.is_writer = False

    def _opened_or_created(self) -> sqlite3.Connection:
        """The existing database if it can be used, else a new one. Raises sqlite3.Error."""
        if self.path.exists():
            known = self._opened_if_usable()
            if known is not None:
                return known
            _remove(self.path)
        connection = self._connected()
        try:
            self._create(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _create(self, connection: sqlite3.Connection) -> None:
        # A version never repeats, not even after the index was rebuilt.
        version = time.time_ns() // 1_000_000
        connection.executescript(f"BEGIN;\n{SCHEMA}")
        connection.executemany(
            "INSERT INTO about (name, value) VALUES (?, ?)",
            [
                ("schema", self._identity),
                ("version", version),
                ("generation", version),
                ("entries", 0),
                ("ready", 0),
            ],
        )
        connection.execute("COMMIT")

    def _opened_when_ready(self) -> sqlite3.Connection:
        """The database that another process writes. Raises StorageError, sqlite3.Error."""
        deadline = time.monotonic() + CREATION_TIMEOUT
        while True:
            known = self._opened_if_usable() if self.path.exists() else None
            if known is not None:
                return known
            if time.monotonic() > deadline:
                raise StorageError(
                    f"{self.path} is in use: {self._lock.holder()} indexes another source there"
                )
            time.sleep(_POLL)

    def _opened_if_usable(self) -> sqlite3.Connection | None:
        """The existing database; None if it is damaged or has another identity.

        Raises sqlite3.Error where it cannot be read.
        """
        connection = None
        try:
            connection = self._connected()
            if _written_by(connection) == self._identity:
                return connection
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise
        if connection is not None:
            connection.close()
        return None

    def _connected(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path, timeout=BUSY_TIMEOUT, isolation_level=None, check_same_thread=False
        )
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute(_DISTRUST)
            connection.execute(f"PRAGMA cache_size = {_WRITER_PAGES}")
        except BaseException:
            connection.close()
            raise
        return connection

    def _reader(self) -> sqlite3.Connection:
        with self._guard:
            if self._idle:
                return self._idle.pop()
        connection = sqlite3.connect(
            f"{self.path.absolute().as_uri()}?mode=ro",
            uri=True,
            timeout=BUSY_TIMEOUT,
            isolation_level=None,
            check_same_thread=False,
        )
        connection.execute(f"PRAGMA cache_size = {_READER_PAGES}")
        connection.execute(_DISTRUST)
        return connection

    def _return(self, connection: sqlite3.Connection) -> None:
        try:
            if connection.in_transaction:
                connection.rollback()
        except sqlite3.Error:
            connection.close()
            return
        with self._guard:
            if not self._closed and len(self._idle) < _IDLE_READERS:
                self._idle.append(connection)
                return
        connection.close()


def _written_by(connection: sqlite3.Connection) -> str | None:
    schema = about_value(connection, "schema")
    return None if schema is None else str(schema)


def about_value(connection: sqlite3.Connection, name: str) -> Any:
    """A value of the table `about`; None where the index has none."""
    row = connection.execute("SELECT value FROM about WHERE name = ?", (name,)).fetchone()
    return None if row is None else row[0]


def _remove(path: Path) -> None:
    for suffix in ("", "-wal", "-shm", "-journal"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def version_of(connection: sqlite3.Connection) -> int:
    """A number that grows whenever rows change; 0 where the index has none."""
    return int(about_value(connection, "version") or 0)


def generation_of(connection: sqlite3.Connection) -> int:
    """The version at which the index was last built from scratch.

    While it is the same, an entry's number and position mean the same bytes.
    """
    return int(about_value(connection, "generation") or 0)
