"""Looking for one text in the records of a source, a portion at a time.

The index says where the records are. Those that follow each other are read as one block, in which
the text is looked for at once; a longer record is read in pieces that overlap. Titles of tasks are
looked for in the index, since not every record has its own.

What has been read is remembered by the last record of each part. When records were added the scan
goes on behind it; when it is not where it was, or the index was begun anew because a file was
replaced, everything is read again.
"""

import os
import re
import sqlite3
from array import array
from collections.abc import Iterator, Sequence
from time import monotonic
from typing import NamedTuple

from rollgym.store.errors import storage_error
from rollgym.viewer.index import SourceIndex
from rollgym.viewer.queries.spelling import LONGEST_ESCAPE, Spelling, has_case_beyond_ascii
from rollgym.viewer.queries.version import begun_of, version_of
from rollgym.viewer.source import Part

BLOCK = 1 << 20
"""Small enough that other threads get their turn between two blocks."""
_BATCH = 1_000
_WIDEST_GAP = 64 << 10
_SHIFT = 32


class _Record(NamedTuple):
    number: int
    position: int
    length: int

    @property
    def end(self) -> int:
        return self.position + self.length


class Scan:
    """One text and what was found so far. For one thread at a time."""

    def __init__(self, text: str) -> None:
        self.matches = array("Q")
        """The numbers of the entries that have the text."""
        self.version = -1
        """Of the index when everything in it had been read; -1 before that."""
        self._title = _Title(text)
        self._spellings = {lines: Spelling(text, in_json=lines) for lines in (True, False)}
        self._last: dict[int, _Record] = {}
        self._begun = 0
        self._part = 0

    @property
    def read(self) -> int:
        """How many bytes are behind us."""
        return sum(record.end for record in self._last.values())

    def advance(self, index: SourceIndex, deadline: float) -> None:
        """Read on until then, and at least one block. Raises StorageError, sqlite3.Error."""
        parts = index.source.parts
        while self._part < len(parts):
            records, titled = self._next(index)
            if records:
                self._read(parts[self._part], records, titled, deadline)
                if monotonic() >= deadline:
                    return
            else:
                self._part += 1
        self._part = 0
        with index.reading() as connection:
            is_more = any(self._after(connection, part, 1) for part in range(len(parts)))
            if not is_more and begun_of(connection) == self._begun:
                self.version = version_of(connection)

    def _next(self, index: SourceIndex) -> tuple[list[_Record], set[int]]:
        """The next records of a part, and which of them have the text in their title."""
        with index.reading() as connection:
            begun = begun_of(connection)
            if begun != self._begun or not self._is_there(connection, self._last.get(self._part)):
                self._begun = begun
                self._part = 0
                self._last.clear()
                del self.matches[:]
            records = self._after(connection, self._part, _BATCH)
            if not records:
                return [], set()
            return records, self._title.entries(connection, records[0].number, records[-1].number)

    def _after(self, connection: sqlite3.Connection, part: int, limit: int) -> list[_Record]:
        last = self._last.get(part)
        rows = connection.execute(
            "SELECT id, position, length FROM entry WHERE id > ? AND id < ? ORDER BY id LIMIT ?",
            (last.number if last else part << _SHIFT, (part + 1) << _SHIFT, limit),
        )
        return [_Record(*row) for row in rows]

    def _is_there(self, connection: sqlite3.Connection, last: _Record | None) -> bool:
        if last is None:
            return True
        found = connection.execute(
            "SELECT position, length FROM entry WHERE id = ?", (last.number,)
        ).fetchone()
        return bool(found == (last.position, last.length))

    def _read(
        self, part: Part, records: Sequence[_Record], titled: set[int], deadline: float
    ) -> None:
        spelling = self._spellings[part.format.by_lines]
        try:
            descriptor = os.open(part.path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                for block in _blocks(records):
                    found = set(_found(descriptor, block, spelling))
                    found.update(record.number for record in block if record.number in titled)
                    self.matches.extend(sorted(found))
                    self._last[self._part] = block[-1]
                    if monotonic() >= deadline:
                        return
            finally:
                os.close(descriptor)
        except OSError as error:
            raise storage_error(error, part.path, "searching in it") from error


class _Title:
    """A text that is looked for in the titles of tasks."""

    def __init__(self, text: str) -> None:
        # SQLite knows the case of ASCII letters only: in place of others it takes any character.
        marks = ("_" if has_case_beyond_ascii(mark) else _escaped(mark) for mark in text)
        self._like = f"%{''.join(marks)}%"
        self._expression = re.compile(re.escape(text), re.IGNORECASE)

    def entries(self, connection: sqlite3.Connection, first: int, last: int) -> set[int]:
        """Those that have the text in their title."""
        found = connection.execute(
            "SELECT entry, title FROM words "
            "WHERE entry BETWEEN ? AND ? AND title LIKE ? ESCAPE '\\'",
            (first, last, self._like),
        )
        return {entry for entry, title in found if self._expression.search(title)}


def _escaped(mark: str) -> str:
    return f"\\{mark}" if mark in "%_\\" else mark


def _blocks(records: Sequence[_Record]) -> Iterator[list[_Record]]:
    """Records that can be read at once; a longer one is a block of its own."""
    block: list[_Record] = []
    for record in records:
        if block and not (
            block[-1].end <= record.position <= block[-1].end + _WIDEST_GAP
            and record.end - block[0].position <= BLOCK
        ):
            yield block
            block = []
        block.append(record)
    if block:
        yield block


def _found(descriptor: int, block: Sequence[_Record], spelling: Spelling) -> Iterator[int]:
    begin, end = block[0].position, block[-1].end
    if end - begin > BLOCK:
        if _is_in_long(descriptor, block[0], spelling):
            yield block[0].number
        return
    data = os.pread(descriptor, end - begin, begin)
    begins = [record.position - begin for record in block]
    ends = [record.end - begin for record in block]
    for place in spelling.records_in(data, begins, ends):
        yield block[place].number


def _is_in_long(descriptor: int, record: _Record, spelling: Spelling) -> bool:
    """Piece by piece: each with what it takes to tell an escape before it, and a find across it."""
    for position in range(record.position, record.end, BLOCK):
        before = min(LONGEST_ESCAPE, position - record.position)
        size = min(before + BLOCK + spelling.longest, record.end - position + before)
        data = os.pread(descriptor, size, position - before)
        if spelling.is_in(data, before):
            return True
    return False
