"""Reading the files of a source, each from where the last read ended.

A reader checks whether its file has changed, and then reads to its end or until the deadline. The
entries and the progress are written in the same transaction.

*Progress.* A file that grew still has the same start, and the same bytes before the position that
was reached. Both are kept as hashes: if they are equal, reading continues; if not, everything is
read again.

A file with another modification time and the same size did not grow: its content may have changed,
and it is read again too. This only applies to files *at rest*, which were not written to for a
moment. While a file is written to, its time runs ahead of its size, and two changes may have the
same time.
"""

import os
import sqlite3
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from stat import S_ISREG
from time import monotonic
from typing import Self

import msgspec

from rollgym.store.errors import StorageError, StoreError, storage_error
from rollgym.viewer.index.database import about_value
from rollgym.viewer.index.entries import EntryWriter
from rollgym.viewer.index.lines import (
    LONGEST_RECORD,
    TOO_LONG,
    FileLine,
    read_exactly,
    read_lines,
    reason_of,
    require_lines,
    unreadable_summary,
)
from rollgym.viewer.source import EntryId, FactsOf, RecordRange, SourcePart
from rollgym.viewer.summary import EntryStatus, RecordSummary
from rollgym.viewer.values import UNREADABLE

_COLUMNS = 9
"""The fields of `ReadProgress` that are columns of the table `part`."""
_HEAD = 64 << 10
_TAIL = 4 << 10
_REST_SECONDS = 2.0
"""No file system has a coarser clock."""


class ReadProgress(msgspec.Struct):
    """How far a part was read: `read` bytes and `records` lines, all of them finished.

    `unfinished` is the length of a last line that is a record although it has no line break yet;
    `digest` tells whether it is still the same. Its entry has the number after `records`.

    `size` and `changed` (modification time in nanoseconds) are those of the file when it was last
    at rest.
    """

    part: int
    path: str
    format: str
    read: int = 0
    records: int = 0
    head: bytes = b""
    tail: bytes = b""
    size: int = -1
    changed: int = 0
    unfinished: int = 0
    digest: str = ""

    @classmethod
    def load(cls, connection: sqlite3.Connection, part: int, path: str, format_name: str) -> Self:
        """The progress of a part from the index; at the start where the index has none."""
        found = connection.execute(
            "SELECT read, records, head, tail, size, changed FROM part WHERE id = ?", (part,)
        ).fetchone()
        progress = cls(part, path, format_name, *(found or ()))
        unfinished = about_value(connection, _unfinished(part))
        if unfinished is not None:
            length, _, progress.digest = str(unfinished).partition(" ")
            progress.unfinished = int(length)
        return progress

    def save(self, connection: sqlite3.Connection) -> None:
        connection.execute(
            "INSERT OR REPLACE INTO part VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            msgspec.structs.astuple(self)[:_COLUMNS],
        )
        if self.unfinished:
            connection.execute(
                "INSERT OR REPLACE INTO about VALUES (?, ?)",
                (_unfinished(self.part), f"{self.unfinished} {self.digest}"),
            )
        else:
            connection.execute("DELETE FROM about WHERE name = ?", (_unfinished(self.part),))

    def mark(self, descriptor: int) -> None:
        """Store the hashes of the file up to the position that was read. Raises OSError."""
        self.head, self.tail = _hashes(descriptor, self.read)

    def continues(self, descriptor: int) -> bool:
        """Whether the bytes that were read are still the same. Raises OSError."""
        return (self.head, self.tail) == _hashes(descriptor, self.read)

    def is_rewritten(self, found: os.stat_result) -> bool:
        """Whether the file was changed without growing since it was last seen at rest.

        If it is at rest now, this is what it is compared with the next time.
        """
        if not is_at_rest(found):
            return False
        size, changed = self.size, self.changed
        self.size, self.changed = found.st_size, found.st_mtime_ns
        return size == self.size and changed != self.changed


def is_at_rest(found: os.stat_result) -> bool:
    """Whether a file was not written to for a moment."""
    return time.time() - found.st_mtime > _REST_SECONDS


def unfinished_bytes(connection: sqlite3.Connection) -> int:
    """The total length of last lines that are records although they have no line break."""
    rows = connection.execute("SELECT value FROM about WHERE name GLOB ?", (_unfinished("*"),))
    return sum(int(str(value).partition(" ")[0]) for (value,) in rows)


def _hashes(descriptor: int, read: int) -> tuple[bytes, bytes]:
    if read == 0:
        return b"", b""
    tail = min(read, _TAIL)
    return (
        _digest(os.pread(descriptor, min(read, _HEAD), 0)),
        _digest(os.pread(descriptor, tail, read - tail)),
    )


def _digest(content: bytes) -> bytes:
    return blake2b(content, digest_size=16).digest()


def _unfinished(part: int | str) -> str:
    return f"unfinished {part}"


_Signature = tuple[int, int, int, int, bool]


class ReplacedError(Exception):
    """The file is not the one that was read before, or was truncated."""


class FileReader(ABC):
    """Reads one file. `progress` says how far it was read."""

    def __init__(self, path: Path, progress: ReadProgress) -> None:
        self.path = path
        self.progress = progress
        self._unseen = ""
        self._unread = ""
        self._finished: _Signature | None = None
        """The state of the file when its end was reached."""

    @property
    def problem(self) -> str:
        """Why the file cannot be read to its end; empty where it can."""
        return self._unseen or self._unread

    def has_news(self) -> bool:
        """Whether there is something to read. A missing file has nothing, for now."""
        self._unseen = ""
        try:
            return self._signature(self.path.stat()) != self._finished
        except FileNotFoundError:
            self._unseen = self._missing()
        except (OSError, StorageError) as error:
            self._unseen = self._message_of(error)
        return False

    def advance(self, deadline: float) -> bool:
        """Read until the deadline; returns whether the end was reached.

        Raises ReplacedError, sqlite3.Error.
        """
        if not self.has_news():
            return True
        signature: _Signature | None = None
        try:
            descriptor = os.open(self.path, os.O_RDONLY)
            try:
                found = os.fstat(descriptor)
                signature = self._signature(found)
                if self.progress.is_rewritten(found):
                    raise ReplacedError
                done = self._read(descriptor, deadline)
            finally:
                os.close(descriptor)
            self._unread = ""
        except (OSError, StoreError) as error:
            self._unread, done = self._message_of(error), True
        self._finished = signature if done else None
        return done

    def save(self, connection: sqlite3.Connection) -> None:
        self.progress.save(connection)

    @abstractmethod
    def _read(self, descriptor: int, deadline: float) -> bool:
        """Read; returns whether the end was reached. Raises ReplacedError, OSError, StoreError."""

    def _missing(self) -> str:
        """The problem of a missing file; empty for one that was never read."""
        if self.progress.read or self.progress.unfinished:
            return (
                f"{self.path} is missing now: the viewer shows the records that it had read before"
            )
        return ""

    def _signature(self, found: os.stat_result) -> _Signature:
        if not S_ISREG(found.st_mode):
            raise StorageError(f"{self.path} is not a file: name a file of rollouts (*.jsonl)")
        size, changed = found.st_size, found.st_mtime_ns
        return (found.st_dev, found.st_ino, size, changed, is_at_rest(found))

    def _message_of(self, error: OSError | StoreError) -> str:
        if isinstance(error, OSError):
            error = storage_error(error, self.path, "reading the records")
        return str(error)


class LineReader(FileReader):
    """A file with a record on each line.

    A last line without a line break may still be incomplete. It counts if it is a whole record
    (the beginning of a record never is one), and is read again each time.
    """

    def _read(self, descriptor: int, deadline: float) -> bool:
        if not self.progress.continues(descriptor):
            raise ReplacedError
        try:
            return self._read_lines(descriptor, deadline)
        finally:
            self.progress.mark(descriptor)

    def _read_lines(self, descriptor: int, deadline: float) -> bool:
        progress = self.progress
        for line in read_lines(descriptor, progress.read):
            if not line.finished:
                self._take_unfinished(line)
                return True
            self._drop_unfinished()
            self._take(line)
            progress.read, progress.records = line.end, progress.records + 1
            if monotonic() >= deadline:
                return False
        self._drop_unfinished()
        return True

    def _take_unfinished(self, line: FileLine) -> None:
        content = line.content or b""
        digest = blake2b(content, digest_size=16).hexdigest()
        if digest == self.progress.digest:
            return
        self._drop_unfinished()
        if self._take_whole(line):
            self.progress.unfinished, self.progress.digest = line.length, digest

    def _drop_unfinished(self) -> None:
        if self.progress.unfinished:
            self._drop()
            self.progress.unfinished, self.progress.digest = 0, ""

    @abstractmethod
    def _take(self, line: FileLine) -> None:
        """Add a line that is finished."""

    @abstractmethod
    def _take_whole(self, line: FileLine) -> bool:
        """Add an unfinished line if it is a whole record; returns whether it was added."""

    @abstractmethod
    def _drop(self) -> None:
        """Remove the record of the unfinished line."""


class EntryReader(FileReader):
    """A part whose records become entries."""

    def __init__(
        self, part: SourcePart, progress: ReadProgress, writer: EntryWriter, facts_of: FactsOf
    ) -> None:
        super().__init__(part.path, progress)
        self._format = part.format
        self._writer = writer
        self._facts_of = facts_of

    def _summary(self, record: bytes | None, name: str) -> RecordSummary:
        """`record` is None if it is too long; `name` is for one that is unreadable."""
        if record is None:
            return unreadable_summary(name, TOO_LONG)
        try:
            return self._format.summary(record, self._facts_of)
        except UNREADABLE as error:
            return unreadable_summary(name, reason_of(error))

    @property
    def _next(self) -> int:
        """The number of the next entry."""
        return EntryId(self.progress.part, self.progress.records + 1).number


class EntryLineReader(EntryReader, LineReader):
    """A part with a record on each line. Blank lines are counted, but have no entries."""

    def _read(self, descriptor: int, deadline: float) -> bool:
        if not self.progress.read:
            require_lines(descriptor, self.path)
        return super()._read(descriptor, deadline)

    def _take(self, line: FileLine) -> None:
        if line.content is None or (line.content and not line.content.isspace()):
            self._add(line, self._summary_of(line))

    def _take_whole(self, line: FileLine) -> bool:
        if line.content is None or line.content.isspace():
            return False
        summary = self._summary_of(line)
        if summary.status is EntryStatus.UNREADABLE:
            return False
        self._add(line, summary)
        return True

    def _drop(self) -> None:
        self._writer.remove(self._next)

    def _add(self, line: FileLine, summary: RecordSummary) -> None:
        self._writer.add(self._next, RecordRange(line.position, line.length), summary)

    def _summary_of(self, line: FileLine) -> RecordSummary:
        return self._summary(line.content, f"line {self.progress.records + 1}")


class ArchiveReader(EntryReader):
    """A part whose format finds its records. Such a file does not grow.

    `progress.read` is the sum of the records' lengths until the end is reached, then the file's
    size.
    """

    _places: Iterator[RecordRange] | None = None

    def _read(self, descriptor: int, deadline: float) -> bool:
        progress, size = self.progress, os.fstat(descriptor).st_size
        if progress.tail:  # it was read to its end
            if progress.read != size or not progress.continues(descriptor):
                raise ReplacedError
            return True
        if self._places is None:
            if progress.records:  # it may be another file than the one that was read in part
                raise ReplacedError
            self._places = self._format.places(self.path)
        places, self._places = self._places, None
        for place in places:
            self._writer.add(self._next, place, self._summary_at(descriptor, place))
            progress.records += 1
            progress.read = min(progress.read + place.length, size)
            if monotonic() >= deadline:
                self._places = places
                return False
        progress.read = size
        progress.mark(descriptor)
        return True

    def _summary_at(self, descriptor: int, place: RecordRange) -> RecordSummary:
        is_long = place.length > LONGEST_RECORD
        record = None if is_long else read_exactly(descriptor, *place)
        return self._summary(record, f"record {self.progress.records + 1}")
