"""Building an index, a portion at a time: the inputs first, then the parts in their order."""

import sqlite3
from collections.abc import Iterator
from functools import lru_cache, partial
from pathlib import Path

import msgspec

from rollgym.records import Row
from rollgym.rollouts.rows import TASK_INDEX
from rollgym.store.inputs import decode_task
from rollgym.viewer.formats.facts import task_facts
from rollgym.viewer.index.database import about_value
from rollgym.viewer.index.entries import EntryWriter, copy_facts_from_inputs, facts_from_inputs
from rollgym.viewer.index.lines import FileLine
from rollgym.viewer.index.readers import (
    ArchiveReader,
    EntryLineReader,
    FileReader,
    LineReader,
    ReadProgress,
    ReplacedError,
)
from rollgym.viewer.source import ViewerSource
from rollgym.viewer.values import LARGEST_INTEGER

INPUTS_PART = -1
"""The inputs are not a part and have no entries; their progress is kept under this number."""
_BATCH = 512
_REMEMBERED = 8192
"""Tasks whose facts are kept in memory."""


def input_task(line: bytes) -> tuple[int, Row]:
    """The index and the row of a task, from a line of a run's inputs or a row with an index.

    Raises ValueError.
    """
    try:
        task = decode_task(line)
    except msgspec.ValidationError:
        row = Row.parse(line)
        index = row.get(TASK_INDEX, int)
        if index is None or not 0 <= index <= LARGEST_INTEGER:
            raise ValueError("the row has no task index") from None
        return index, row
    if task.index > LARGEST_INTEGER:
        raise ValueError(f"task index {task.index} is too large")
    return task.index, task.row


class InputReader(LineReader):
    """Reads a materialised `inputs.jsonl`. Lines that are not tasks are skipped."""

    def __init__(self, path: Path, progress: ReadProgress, connection: sqlite3.Connection) -> None:
        super().__init__(path, progress)
        self._connection = connection
        self._changed = False
        self._pending: list[tuple[object, ...]] = []

    def take_changed(self) -> bool:
        """Whether tasks were added since the last call."""
        self._flush()
        changed, self._changed = self._changed, False
        return changed

    def _take(self, line: FileLine) -> None:
        self._take_whole(line)

    def _take_whole(self, line: FileLine) -> bool:
        try:
            task, row = input_task(line.content or b"")
        except (ValueError, RecursionError):
            return False
        facts = task_facts(row.fields)
        place = (line.position, line.length)
        details = (facts.key, facts.title, facts.agent, facts.domain, facts.difficulty)
        self._pending.append((task, *place, *details))
        self._changed = True
        if len(self._pending) >= _BATCH:
            self._flush()
        return True

    def _drop(self) -> None:
        """Nothing to do: the finished line is the same task, or the file was replaced."""

    def _flush(self) -> None:
        self._connection.executemany(
            "INSERT OR REPLACE INTO task VALUES (?, ?, ?, ?, ?, ?, ?, ?)", self._pending
        )
        self._pending.clear()


_TABLES = ("part", "entry", "words", "tool", "sign", "version", "cause", "field", "task", "kept")


class Builder:
    """Reads the files of a source into its database. It is the only one that writes there.

    After a database error its memory is ahead of the tables: discard it and make a new one.
    """

    def __init__(self, source: ViewerSource, connection: sqlite3.Connection) -> None:
        """Raises sqlite3.Error."""
        self._source = source
        self._connection = connection
        self._start()

    @property
    def problems(self) -> list[str]:
        """Why files cannot be read, one message for each of them."""
        return [reader.problem for reader in self._readers if reader.problem]

    def portion(self, deadline: float) -> bool:
        """Read until the deadline, in one transaction; returns whether all is read.

        Raises sqlite3.Error; the transaction is then rolled back.
        """
        news = sum(reader.has_news() for reader in self._followed())
        if not news and self._is_ready:
            return True
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            done = self._read(deadline)
            self._connection.execute("COMMIT")
        except BaseException:
            self._connection.rollback()
            raise
        return done

    def _read(self, deadline: float) -> bool:
        try:
            done = all(self._advance(reader, deadline) for reader in self._followed())
        except ReplacedError:
            self._empty()
            return False
        self._writer.flush()
        for reader in self._readers:
            reader.save(self._connection)
        self._note(changed=self._writer.changed, ready=done)
        self._writer.changed = False
        return done

    def _advance(self, reader: FileReader, deadline: float) -> bool:
        done = reader.advance(deadline)
        if isinstance(reader, InputReader) and reader.take_changed():
            self._facts.cache_clear()
            self._writer.flush()
            copy_facts_from_inputs(self._connection)
            self._writer.changed = True
        return done

    def _start(self) -> None:
        self._writer = EntryWriter(self._connection, self._source.parts)
        self._facts = lru_cache(_REMEMBERED)(partial(facts_from_inputs, self._connection))
        self._readers = list(self._made_readers())
        self._is_ready = bool(about_value(self._connection, "ready"))

    def _made_readers(self) -> Iterator[FileReader]:
        if (inputs := self._source.inputs) is not None:
            name = relative_name(self._source, inputs)
            progress = ReadProgress.load(self._connection, INPUTS_PART, name, "inputs")
            yield InputReader(inputs, progress, self._connection)
        for number, part in enumerate(self._source.parts):
            made = EntryLineReader if part.format.by_lines else ArchiveReader
            name = relative_name(self._source, part.path)
            progress = ReadProgress.load(self._connection, number, name, part.format.name)
            yield made(part, progress, self._writer, self._facts)

    def _followed(self) -> list[FileReader]:
        """The readers of files that are not links out of the source's folder now."""
        return [reader for reader in self._readers if not self._leads_out(reader)]

    def _leads_out(self, reader: FileReader) -> bool:
        if isinstance(reader, InputReader):
            return self._source.leads_out(reader.path)
        return self._source.part_leads_out(reader.path)

    def _empty(self) -> None:
        """Delete all rows, because a file was replaced: everything is read again."""
        for table in _TABLES:
            self._connection.execute(f"DELETE FROM {table}")  # noqa: S608 - our own names
        self._connection.execute("DELETE FROM about WHERE name GLOB 'unfinished *'")
        self._connection.execute("UPDATE about SET value = 0 WHERE name IN ('entries', 'ready')")
        self._note(changed=True, ready=False)
        self._connection.execute(
            "INSERT OR REPLACE INTO about "
            "SELECT 'generation', value FROM about WHERE name = 'version'"
        )
        self._start()

    def _note(self, *, changed: bool, ready: bool) -> None:
        execute = self._connection.execute
        if changed:
            execute("UPDATE about SET value = value + 1 WHERE name = 'version'")
        if self._writer.count:
            execute(
                "UPDATE about SET value = value + ? WHERE name = 'entries'", (self._writer.count,)
            )
            self._writer.count = 0
        if ready and not self._is_ready:
            execute("UPDATE about SET value = 1 WHERE name = 'ready'")
            self._is_ready = True


def relative_name(source: ViewerSource, path: Path) -> str:
    """The name of a source's file in its index, which does not change when the folder moves."""
    base = source.path if source.path.is_dir() else source.path.parent
    return str(path.relative_to(base)) if path.is_relative_to(base) else str(path)
