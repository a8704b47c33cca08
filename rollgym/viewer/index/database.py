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

from rollgym.store import FileLock
from rollgym.store.errors import StorageError, storage_error

SCHEMA = files(__package__).joinpath("schema.sql").read_text("utf-8")
REVISION = 6
"""Goes up when columns or kept answers change their meaning, and the schema does not."""
CREATION_TIMEOUT = 5.0
BUSY_TIMEOUT = 5.0
_POLL = 0.02
_IDLE_READERS = 4
_READER_PAGES = "-4096"
_WRITER_PAGES = "-16384"
"""KiB of pages that a connection keeps, as SQLite has it: negative."""
_DISTRUST = "PRAGMA trusted_schema = OFF"
"""An index may have come along with somebody's file: what its schema calls does nothing."""
_BROKEN = frozenset((sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB))
_BUSY = frozenset((sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED))


def is_damage(error: sqlite3.Error) -> bool:
    """Whether the database itself is at fault, and would have to be made anew."""
    code: int | None = getattr(error, "sqlite_errorcode", None)
    if code is None:
        return False
    return code & 0xFF in _BROKEN or str(error).startswith("no such table")


def is_busy(error: sqlite3.Error) -> bool:
    """Whether somebody else was at it, and trying again helps."""
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF in _BUSY


def identity_of(described: bytes) -> str:
    """What tells a database that serves us from one that does not."""
    digest = blake2b(described, digest_size=16)
    digest.update(f"{REVISION}\n{SCHEMA}".encode())
    return digest.hexdigest()


class Database:
    """An index at one place."""

    def __init__(self, path: Path, identity: str) -> None:
        """Raises StorageError where the place does not do."""
        self.path = path
        self.leading = False
        self._identity = identity
        self._lock = FileLock(path.with_name(f"{path.name}.lock"))
        self._guard = threading.Lock()
        self._idle: list[sqlite3.Connection] = []
        self._closed = False
        try:
            self.leading = self._lock.try_acquire()
            self.connection = self._made() if self.leading else self._joined()
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

    def lead(self) -> bool:
        """Whether we hold the lock, having tried. Raises StorageError."""
        if not self.leading:
            self.leading = self._lock.try_acquire()
        return self.leading

    def is_there(self) -> bool:
        """Whether our file is still the one at its place."""
        try:
            return os.path.samestat(self._file, self.path.stat())
        except OSError:
            return False

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A connection that sees one state of the database for as long as it is held."""
        connection = self._reader()
        try:
            connection.execute("BEGIN")
            yield connection
        finally:
            self._give_back(connection)

    def discard(self) -> None:
        """Remove the database; only for whoever leads. It is to be closed, and opened again."""
        _remove(self.path)

    def close(self) -> None:
        """Readers who still have a connection keep it until they are done."""
        with self._guard:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()
        with contextlib.suppress(sqlite3.Error):  # the last pages of a disk that is full
            self.connection.close()
        self._unlock()

    def _unlock(self) -> None:
        if self.leading:
            # While it is held nobody else can think that they have it.
            self._lock.path.unlink(missing_ok=True)
            self._lock.release()
            self.leading = False

    def _made(self) -> sqlite3.Connection:
        """The database that is there if it serves, else a new one. Raises sqlite3.Error."""
        if self.path.exists():
            known = self._known()
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
        # A version is never given twice, also not by an index that is made again.
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

    def _joined(self) -> sqlite3.Connection:
        """The database that another process leads. Raises StorageError, sqlite3.Error."""
        deadline = time.monotonic() + CREATION_TIMEOUT
        while True:
            known = self._known() if self.path.exists() else None
            if known is not None:
                return known
            if time.monotonic() > deadline:
                raise StorageError(
                    f"{self.path}: {self._lock.holder()} keeps an index of something else there"
                )
            time.sleep(_POLL)

    def _known(self) -> sqlite3.Connection | None:
        """The database that is there; None where it is damaged, or not of what we are.

        Raises sqlite3.Error where that cannot be told.
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

    def _give_back(self, connection: sqlite3.Connection) -> None:
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
    row = connection.execute("SELECT value FROM about WHERE name = 'schema'").fetchone()
    return None if row is None else str(row[0])


def _remove(path: Path) -> None:
    for suffix in ("", "-wal", "-shm", "-journal"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def version_of(connection: sqlite3.Connection) -> int:
    """A number that grows whenever rows changed; 0 where the index has none."""
    found = connection.execute("SELECT value FROM about WHERE name = 'version'").fetchone()
    return int(found[0]) if found else 0


def generation_of(connection: sqlite3.Connection) -> int:
    """The version at which the files were begun to be read: another one once they are read anew.

    As long as it stays, an entry's number and place stand for the same bytes.
    """
    found = connection.execute("SELECT value FROM about WHERE name = 'generation'").fetchone()
    return int(found[0]) if found else 0
