"""The index of a source for all threads of this process: one thread builds it, many read it.

Two viewers of one source share the database. One of them builds it; the other one reads it, and
continues building when the first one ends.
"""

import contextlib
import os
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, sleep

import msgspec

from rollgym.records import Row
from rollgym.store.errors import StorageError, storage_errors
from rollgym.viewer.index.builder import Builder, input_task
from rollgym.viewer.index.database import Database, is_busy, is_damage
from rollgym.viewer.index.entries import find_task_facts
from rollgym.viewer.index.lines import LONGEST_RECORD, read_exactly
from rollgym.viewer.index.readers import unfinished_bytes
from rollgym.viewer.index.storage import IndexStorage
from rollgym.viewer.source import EntryId, RecordRange, SourcePart, ViewerSource, size_of_file
from rollgym.viewer.summary import TaskFacts

PORTION = 0.25
"""Seconds of reading after which new entries are committed and visible."""
_POLL = 0.05


class IndexState(msgspec.Struct, frozen=True):
    """How much of a source is in its index.

    `version` grows whenever rows change. `read` of `size` bytes are indexed. `ready` says that the
    end was reached once; later records may be missing for a moment. `problem` says which files
    cannot be read; it is empty if all can.
    """

    version: int = 0
    entries: int = 0
    read: int = 0
    size: int = 0
    ready: bool = False
    problem: str = ""


class SourceIndex:
    """The indexed records of a source. It is also the context of its documents."""

    def __init__(self, source: ViewerSource) -> None:
        self.source = source
        self._writing = threading.Lock()
        self._storage = IndexStorage(source)
        self._builder: Builder | None = None
        self._damage: sqlite3.Error | None = None
        self._closing = False
        self._problem = ""

    def open(self) -> None:
        """Open the database or create it. Raises StorageError where there is no location for it."""
        with self._writing:
            self._closing = False
            self._storage.open()

    def extend(self, seconds: float) -> bool:
        """Read the files for about that long; returns whether all parts are read to their ends.

        At least one record is read, if there is one. Raises StorageError where there is no
        location left for the index.
        """
        deadline = monotonic() + seconds
        with self._writing:
            while not self._closing:
                done = self._extended(deadline)
                left = deadline - monotonic()
                if done or left <= 0:
                    return done
                if self._builder is None:  # another process is writing
                    sleep(min(left, _POLL))
        return True

    def state(self) -> IndexState:
        """The present state. Raises StorageError."""
        with self.reading() as connection:
            about = dict(connection.execute("SELECT name, value FROM about").fetchall())
            (read,) = connection.execute("SELECT coalesce(sum(read), 0) FROM part").fetchone()
            read += unfinished_bytes(connection)
        return IndexState(
            version=about["version"],
            entries=about["entries"],
            read=read,
            size=sum(map(size_of_file, _files(self.source))),
            ready=bool(about["ready"]),
            problem=self._problem,
        )

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A read-only connection, which sees one state of the index while it is held.

        Raises StorageError if the index cannot be read; it is then rebuilt.
        """
        try:
            with self._storage.database.reading() as connection:
                yield connection
        except sqlite3.DatabaseError as error:
            if is_damage(error):
                self._damage = error
            elif not is_busy(error):
                raise
            raise StorageError(
                f"cannot read the index of {self.source.path} ({error}): try again in a moment"
            ) from error

    def place(self, entry: EntryId) -> tuple[SourcePart, RecordRange]:
        """The part and the position of a record. Raises KeyError, StorageError."""
        with self.reading() as connection:
            found = connection.execute(
                "SELECT position, length FROM entry WHERE id = ?", (entry.number,)
            ).fetchone()
        if found is None or entry.part >= len(self.source.parts):
            raise KeyError(str(entry))
        part = self.source.parts[entry.part]
        if self.source.part_leads_out(part.path):
            raise KeyError(str(entry))
        return part, RecordRange(*found)

    def record(self, entry: EntryId, most: int | None = None) -> bytes:
        """The bytes of a record, without a line break; with `most` only the first ones.

        Raises KeyError, StorageError.
        """
        part, place = self.place(entry)
        if most is None and place.length > LONGEST_RECORD:
            raise StorageError(
                f"{part.path}: record {entry.record} is longer than the limit of "
                f"{LONGEST_RECORD >> 20} MiB and cannot be shown"
            )
        length = min(place.length, most or LONGEST_RECORD)
        return _read(part.path, RecordRange(place.position, length))

    def input_row(self, task: int) -> Row | None:
        """The row of a task; None where the source's inputs do not have it.

        Raises StorageError where the index cannot be read.
        """
        inputs = self.source.inputs
        if inputs is None or self.source.leads_out(inputs):
            return None
        with self.reading() as connection:
            found = connection.execute(
                "SELECT position, length FROM task WHERE task = ?", (task,)
            ).fetchone()
        if found is None:
            return None
        try:
            return input_task(_read(inputs, RecordRange(*found)))[1]
        except (ValueError, StorageError):  # the file was replaced or removed since it was indexed
            return None

    def facts(self, task: int) -> TaskFacts | None:
        """The facts of a task, from the inputs or from other records. Raises StorageError."""
        with self.reading() as connection:
            return find_task_facts(connection, task)

    @property
    def images(self) -> Path | None:
        return self.source.images

    def keep(self, name: str, body: bytes, version: int) -> None:
        """Keep a response while the index stays at the version that it was made from.

        Nothing is kept while the index is being built.
        """
        if not self._writing.acquire(blocking=False):
            return
        try:
            connection = self._storage.database.connection
            connection.execute(
                "INSERT OR REPLACE INTO kept (name, version, body) SELECT ?, value, ? "
                "FROM about WHERE name = 'version' AND value = ?",
                (name, body, version),
            )
            connection.execute(
                "DELETE FROM kept WHERE version <> (SELECT value FROM about WHERE name = 'version')"
            )
        except sqlite3.OperationalError:
            return  # perhaps a full disk: the response is made again on request
        finally:
            self._writing.release()

    def kept(self, name: str) -> bytes | None:
        """A kept response of the present version, or None. Raises StorageError."""
        with self.reading() as connection:
            found = connection.execute(
                "SELECT body FROM kept WHERE name = ? AND version = "
                "(SELECT value FROM about WHERE name = 'version')",
                (name,),
            ).fetchone()
        return None if found is None else bytes(found[0])

    def close(self) -> None:
        """Close the index, so that another process can write it. Open connections stay usable."""
        self._closing = True
        with self._writing:
            self._builder = None
            self._storage.close()

    def _extended(self, deadline: float) -> bool:
        database = self._storage.database
        try:
            if not database.is_there():
                self._builder = None
                database = self._storage.open_again()
            if not database.become_writer():
                return self.state().ready
            if self._damage is not None:
                raise self._damage
            done = self._portion(database, deadline)
        except sqlite3.Error as error:
            self._damage = None
            if not is_busy(error):
                self._builder = None
                self._storage.repair(error)
            return False
        return done

    def _portion(self, database: Database, deadline: float) -> bool:
        """Read a portion. A builder that fails is not used again. Raises sqlite3.Error."""
        builder = self._builder or Builder(self.source, database.connection)
        self._builder = None
        done = builder.portion(min(deadline, monotonic() + PORTION))
        self._builder = builder
        self._problem = "\n".join(builder.problems)
        return done


def _files(source: ViewerSource) -> Iterator[Path]:
    if source.inputs is not None:
        yield source.inputs
    yield from (part.path for part in source.parts)


def _read(path: Path, place: RecordRange) -> bytes:
    with storage_errors(path, "reading a record"):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            content = read_exactly(descriptor, place.position, place.length)
        finally:
            os.close(descriptor)
    if len(content) < place.length:
        raise StorageError(f"{path} is shorter than when it was indexed: try again in a moment")
    return content
