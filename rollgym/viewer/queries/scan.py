"""Searching the records of a source for one text, a portion at a time.

*Spelling.* Case does not matter. ASCII letters are lowered on both sides, which leaves all other
bytes of UTF-8 unchanged, so that most texts are found as plain bytes. A text with other letters
that have a case (`ö`, `Ö`) is searched for with a regular expression, which is slower. Only single
letters are equal to each other: `ß` does not match `SS`. JSON may write characters as they are or
as escapes (`\\u00fc`); quotes, backslashes and line breaks are always escapes. A match that starts
inside an escape, such as the `n` of `\\n`, does not count. Archives contain texts without escapes.

*Reading.* The index knows where the records are. Adjacent records are read as one block and
searched at once; a longer record is read in pieces that overlap. Titles of tasks are searched for
in the index, since not every record contains its own.

*Resuming.* The scan remembers the last record of each part. When records were added it continues
after it. When that record has moved, or the index was rebuilt because a file was replaced,
everything is read again.
"""

import json
import os
import re
import sqlite3
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from time import monotonic
from typing import NamedTuple

from rollgym.store.errors import storage_errors
from rollgym.viewer.index.database import generation_of, version_of
from rollgym.viewer.index.source_index import SourceIndex
from rollgym.viewer.source import SourcePart

_BEGUN_ESCAPE = re.compile(rb"(?<!\\)\\(?:\\\\)*(?:u[0-9a-fA-F]{0,3})?$")
"""An odd number of backslashes, and all digits of an escaped character except the last."""
_LONGEST_NUMBER = 5
LONGEST_ESCAPE = 64
"""How many bytes before a match are checked for backslashes."""
_FIRST_BEYOND_ASCII, _LAST_WITH_CASE = 0x80, 0x1FFFF

_Find = Callable[[bytes, int], tuple[int, int]]
"""The start and end of the next match from an offset on; the start is -1 if there is none."""


class Spelling:
    """The spellings of one text, in one kind of file."""

    def __init__(self, text: str, *, in_json: bool) -> None:
        # Half of a surrogate pair has no UTF-8 encoding, so no file contains it.
        plain = text.encode("utf-8", "replace").decode("utf-8")
        self._in_json = in_json
        self._finds: list[_Find]
        if has_case_beyond_ascii(plain):
            spelled = [_any_case(character, in_json=in_json) for character in plain]
            self._finds = [_expression(spelled)]
            self._as_it_is = False
            self.longest = sum(max(map(len, each)) for each in spelled)
        else:
            patterns = _spelled(plain, in_json=in_json)
            self._finds = [_literal(pattern) for pattern in patterns]
            self._as_it_is = all(pattern == pattern.upper() for pattern in patterns)
            self.longest = max(map(len, patterns))

    def is_in(self, data: bytes, begin: int = 0) -> bool:
        """Whether the text is in a record, or in a piece of a record from an offset on."""
        return next(self.records_in(data, [begin], [len(data)]), None) is not None

    def records_in(self, data: bytes, begins: Sequence[int], ends: Sequence[int]) -> Iterator[int]:
        """The indexes of the records that contain the text, unordered and possibly repeated.

        The records start and end at these offsets of the data, in order.
        """
        if not self._as_it_is:
            data = data.lower()
        for find in self._finds:
            offset, end = find(data, 0)
            while offset >= 0:
                record = bisect_right(begins, offset) - 1
                if record >= 0 and end <= ends[record] and not self._is_escaped(data, offset):
                    yield record
                    offset, end = find(data, ends[record])
                else:
                    offset, end = find(data, offset + 1)

    def _is_escaped(self, data: bytes, offset: int) -> bool:
        if not self._in_json or data.find(b"\\", max(0, offset - _LONGEST_NUMBER), offset) < 0:
            return False
        before = data[max(0, offset - LONGEST_ESCAPE) : offset]
        return _BEGUN_ESCAPE.search(before) is not None


def has_case_beyond_ascii(text: str) -> bool:
    """Whether the text has a letter beyond ASCII that has a case."""
    return not text.isascii() and not _same_letters().keys().isdisjoint(text)


def _spelled(text: str, *, in_json: bool) -> list[bytes]:
    """The spellings of a text, with ASCII letters in lower case."""
    if not in_json:
        return [text.encode().lower()]
    spelled = (json.dumps(text, ensure_ascii=escaped)[1:-1] for escaped in (False, True))
    return sorted({each.encode().lower() for each in spelled})


def _any_case(character: str, *, in_json: bool) -> list[bytes]:
    letters = _same_letters().get(character, character)
    return [each for letter in letters for each in _spelled(letter, in_json=in_json)]


def _literal(pattern: bytes) -> _Find:
    def find(data: bytes, start: int) -> tuple[int, int]:
        offset = data.find(pattern, start)
        return offset, offset + len(pattern)

    return find


def _expression(spelled: Sequence[Sequence[bytes]]) -> _Find:
    """Finds a sequence of characters, each with several spellings."""
    expression = re.compile(
        b"".join(b"(?:%b)" % b"|".join(map(re.escape, each)) for each in spelled)
    )

    def find(data: bytes, start: int) -> tuple[int, int]:
        found = expression.search(data, start)
        return (-1, -1) if found is None else found.span()

    return find


@cache
def _same_letters() -> Mapping[str, str]:
    """The letters beyond ASCII that have a case, each with all letters that only differ in case."""
    folded: dict[str, str] = {}
    for letter in map(chr, range(_FIRST_BEYOND_ASCII, _LAST_WITH_CASE + 1)):
        fold = letter.casefold()
        folded.setdefault(fold, fold if fold.isascii() and len(fold) == 1 else "")
        folded[fold] += letter
    return {
        letter: letters
        for letters in folded.values()
        if len(letters) > 1
        for letter in letters
        if not letter.isascii()
    }


BLOCK = 1 << 20
"""Small enough for other threads to run between two blocks."""
_BATCH = 1_000
_WIDEST_GAP = 64 << 10
_SHIFT = 32


class _EntryRecord(NamedTuple):
    number: int
    position: int
    length: int

    @property
    def end(self) -> int:
        return self.position + self.length


class TextScan:
    """The search for one text, and its matches so far. For one thread at a time."""

    def __init__(self, text: str) -> None:
        self.matches = array("Q")
        """The numbers of the entries that contain the text."""
        self.version = -1
        """The version of the index that was searched to its end; -1 before that."""
        self._title = _TitleMatcher(text)
        self._spellings = {lines: Spelling(text, in_json=lines) for lines in (True, False)}
        self._last: dict[int, _EntryRecord] = {}
        self._generation = 0
        self._part = 0

    @property
    def read(self) -> int:
        """How many bytes were searched."""
        return sum(record.end for record in self._last.values())

    def advance(self, index: SourceIndex, deadline: float) -> None:
        """Search until the deadline, at least one block. Raises StorageError, sqlite3.Error."""
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
            if not is_more and generation_of(connection) == self._generation:
                self.version = version_of(connection)

    def _next(self, index: SourceIndex) -> tuple[list[_EntryRecord], set[int]]:
        """The next records of a part, and those of them with the text in their title."""
        with index.reading() as connection:
            generation = generation_of(connection)
            if generation != self._generation or not self._is_there(
                connection, self._last.get(self._part)
            ):
                self._generation = generation
                self._part = 0
                self._last.clear()
                del self.matches[:]
            records = self._after(connection, self._part, _BATCH)
            if not records:
                return [], set()
            return records, self._title.entries(connection, records[0].number, records[-1].number)

    def _after(self, connection: sqlite3.Connection, part: int, limit: int) -> list[_EntryRecord]:
        last = self._last.get(part)
        rows = connection.execute(
            "SELECT id, position, length FROM entry WHERE id > ? AND id < ? ORDER BY id LIMIT ?",
            (last.number if last else part << _SHIFT, (part + 1) << _SHIFT, limit),
        )
        return [_EntryRecord(*row) for row in rows]

    def _is_there(self, connection: sqlite3.Connection, last: _EntryRecord | None) -> bool:
        if last is None:
            return True
        found = connection.execute(
            "SELECT position, length FROM entry WHERE id = ?", (last.number,)
        ).fetchone()
        return bool(found == (last.position, last.length))

    def _read(
        self, part: SourcePart, records: Sequence[_EntryRecord], titled: set[int], deadline: float
    ) -> None:
        spelling = self._spellings[part.format.by_lines]
        with storage_errors(part.path, "searching it"):
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


class _TitleMatcher:
    """Searches the titles of tasks for a text."""

    def __init__(self, text: str) -> None:
        # SQLite ignores the case of ASCII letters only: other letters match any character first.
        marks = ("_" if has_case_beyond_ascii(mark) else _escaped(mark) for mark in text)
        self._like = f"%{''.join(marks)}%"
        self._expression = re.compile(re.escape(text), re.IGNORECASE)

    def entries(self, connection: sqlite3.Connection, first: int, last: int) -> set[int]:
        """The entries that have the text in their title."""
        found = connection.execute(
            "SELECT entry, title FROM words "
            "WHERE entry BETWEEN ? AND ? AND title LIKE ? ESCAPE '\\'",
            (first, last, self._like),
        )
        return {entry for entry, title in found if self._expression.search(title)}


def _escaped(mark: str) -> str:
    return f"\\{mark}" if mark in "%_\\" else mark


def _blocks(records: Sequence[_EntryRecord]) -> Iterator[list[_EntryRecord]]:
    """Groups of records that are read at once; a long record is a block by itself."""
    block: list[_EntryRecord] = []
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


def _found(descriptor: int, block: Sequence[_EntryRecord], spelling: Spelling) -> Iterator[int]:
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


def _is_in_long(descriptor: int, record: _EntryRecord, spelling: Spelling) -> bool:
    """Search in pieces that overlap by an escape before them and a match across them."""
    for position in range(record.position, record.end, BLOCK):
        before = min(LONGEST_ESCAPE, position - record.position)
        size = min(before + BLOCK + spelling.longest, record.end - position + before)
        data = os.pread(descriptor, size, position - before)
        if spelling.is_in(data, before):
            return True
    return False
