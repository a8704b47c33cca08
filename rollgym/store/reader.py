"""Reading journals as a stream, and single records and tasks by their position.

A rollout may have several final records: it failed and was run again later, or two shards ran it.
Exactly one of them is current. It is chosen by content, so the order of files and lines does not
matter: a completed record before others, then the highest attempt, then the smaller digest.
"""

import os
import threading
from array import array
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec

from rollgym.closing import Closable
from rollgym.records import (
    Attempt,
    ChecksumError,
    Completed,
    RolloutKey,
    SchemaVersionError,
    Task,
    decode_attempt,
)
from rollgym.store.errors import (
    CorruptJournalError,
    InputsError,
    RecordVersionError,
    storage_errors,
)
from rollgym.store.inputs import TaskRepeats, decode_task, task_index
from rollgym.store.layout import inputs_path, journal_paths
from rollgym.store.manifest import read_manifest
from rollgym.store.progress import KeySet

_READ_FIRST = 64 * 1024
_READ_AT_MOST = 1024 * 1024
_LARGEST_INDEX = 2**64 - 1


class JournalEntry(NamedTuple):
    """A record with its bytes and their position."""

    attempt: Attempt
    line: bytes
    path: Path
    offset: int


def read_journal(path: Path, end: int | None = None) -> Iterator[JournalEntry]:
    """Read every whole line of a journal, which may be growing, up to byte `end`.

    Raises CorruptJournalError and RecordVersionError with file and line, and StorageError when
    the file cannot be read.
    """
    offset = 0
    with storage_errors(path, "reading the journal"), path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.endswith(b"\n") or (end is not None and offset + len(line) > end):
                return
            try:
                attempt = decode_attempt(line)
            except SchemaVersionError as error:
                raise RecordVersionError(f"{path}:{number}: {error}") from error
            except (msgspec.DecodeError, UnicodeDecodeError, ChecksumError) as error:
                raise CorruptJournalError(path, number, str(error)) from error
            yield JournalEntry(attempt, line, path, offset)
            offset += len(line)


def rank(entry: JournalEntry) -> tuple[bool, int, bytes]:
    """A sort key: of the final records of one rollout, the smallest is current."""
    attempt = entry.attempt
    return (
        not isinstance(attempt.outcome, Completed),
        -attempt.attempt,
        sha256(entry.line).digest(),
    )


class _Snapshot:
    """Several journals up to their present sizes, to be read repeatedly while they grow."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self._ends: dict[Path, int] = {}
        for path in paths:
            with storage_errors(path, "reading the journal"):
                self._ends[path] = path.stat().st_size

    def __iter__(self) -> Iterator[JournalEntry]:
        for path, end in self._ends.items():
            yield from read_journal(path, end)

    def finals(self) -> Iterator[JournalEntry]:
        return (entry for entry in self if entry.attempt.final)


def read_records(paths: Iterable[Path]) -> Iterator[tuple[JournalEntry, bool]]:
    """Read every record of several journals of one run, each with whether it is current.

    A final record is current when it is its rollout's outcome; of identical copies, only the first
    is. An attempt that was not final is always current, as history. The files are read more than
    once. Memory: a bit per rollout, and an entry for each rollout with several final records.
    """
    snapshot = _Snapshot(paths)
    winners = _winners(snapshot)
    for entry in snapshot:
        winner = winners.get(entry.attempt.key) if entry.attempt.final else None
        yield entry, winner is None or winner == (entry.path, entry.offset)


def run_records(directory: Path) -> Iterator[tuple[JournalEntry, bool]]:
    """Read every record of a run, as `read_records` does.

    Each record has the number of repeats that its task has now, also where the run has grown.
    Raises RefusedError, StorageError.
    """
    manifest = read_manifest(directory)
    records = read_records(journal_paths(directory))
    if manifest is None or not manifest.repeats_grown:
        yield from records
        return
    repeats = TaskRepeats(inputs_path(directory))
    for entry, current in records:
        attempt = entry.attempt
        present = repeats.of(attempt.task) or attempt.repeats
        if present != attempt.repeats:
            attempt = msgspec.structs.replace(attempt, repeats=present)
            yield entry._replace(attempt=attempt), current
        else:
            yield entry, current


def _winners(snapshot: _Snapshot) -> dict[RolloutKey, tuple[Path, int]]:
    """The position of the current record of each rollout with several final records."""
    contested = _contested(snapshot)
    if not contested:
        return {}
    best: dict[RolloutKey, tuple[tuple[bool, int, bytes], tuple[Path, int]]] = {}
    for entry in snapshot.finals():
        key = entry.attempt.key
        if key in contested:
            candidate = (rank(entry), (entry.path, entry.offset))
            best[key] = min(best.get(key, candidate), candidate)
    return {key: position for key, (_, position) in best.items()}


def _contested(snapshot: _Snapshot) -> set[RolloutKey]:
    seen, contested = KeySet(), set()
    for entry in snapshot.finals():
        if not seen.add(entry.attempt.task, entry.attempt.repeat):
            contested.add(entry.attempt.key)
    return contested


class TaskLookup(Closable):
    """The tasks of the materialised inputs by their index, in 8 bytes of memory each.

    Indexes that are not simply counted from 0 take more memory. Rows are not kept. The inputs may
    grow meanwhile.
    """

    def __init__(self, path: Path) -> None:
        """Read the positions of all tasks. Raises InputsError, StorageError."""
        self._path = path
        self._offsets = array("Q")
        self._end = 0
        self._positions: dict[int, int] | None = None
        self._reading = threading.Lock()
        with storage_errors(path, "reading the inputs"), ExitStack() as opened:
            self._file = opened.enter_context(path.open("rb"))
            self._lines = _Lines(self._file)
            self._read_offsets()
            opened.pop_all()

    def task(self, index: int) -> Task:
        """Raises KeyError for an unknown index, InputsError, StorageError."""
        with storage_errors(self._path, "reading the inputs"):
            position = self._position(index)
            if position is None:
                with self._reading:
                    self._read_offsets()
                position = self._position(index)
            if position is None:
                raise KeyError(index)
            line = self._lines.at(self._offsets[position])
        try:
            return decode_task(line)
        except ValueError as error:
            raise InputsError(f"{self._path}: task {index} cannot be read ({error})") from error

    def close(self) -> None:
        self._file.close()

    def _position(self, index: int) -> int | None:
        if self._positions is not None:
            return self._positions.get(index)
        return index if 0 <= index < len(self._offsets) else None

    def _read_offsets(self) -> None:
        """Read the positions of the tasks that were added since the last time."""
        self._file.seek(self._end)
        for line in self._file:
            if not line.endswith(b"\n"):
                return  # it is being written
            number = len(self._offsets)
            try:
                index = _index(line)
            except ValueError as error:
                raise InputsError(
                    f"{self._path}:{number + 1}: this line is not a valid task ({error})"
                ) from error
            if self._positions is None and index != number:
                self._positions = {known: known for known in range(number)}
            if self._positions is not None:
                self._positions[index] = number
            self._offsets.append(self._end)
            self._end += len(line)


def _index(line: bytes) -> int:
    """The index of a task. Raises ValueError, also for one that no row can have."""
    index = task_index(line)
    if index > _LARGEST_INDEX:
        raise ValueError(f"the index {index} is too large")
    return index


class RecordLookup(Closable):
    """The records of journals by their offset."""

    def __init__(self) -> None:
        self._files: dict[Path, _Lines] = {}

    def record(self, journal: Path, offset: int) -> Attempt:
        """Raises CorruptJournalError, StorageError."""
        with storage_errors(journal, "reading the journal"):
            lines = self._files.get(journal)
            if lines is None:
                lines = self._files[journal] = _Lines(journal.open("rb"))
            line = lines.at(offset)
        try:
            return decode_attempt(line)
        except ValueError as error:
            number = _line_number(lines.file, offset)
            raise CorruptJournalError(journal, number, str(error)) from error

    def close(self) -> None:
        for lines in self._files.values():
            lines.file.close()
        self._files.clear()


class _Lines:
    """The lines of a file by their offset. They are mostly read in order, so a block is kept.

    The file may grow, and several threads may read.
    """

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self._kept = (0, b"")

    def at(self, offset: int) -> bytes:
        """The line that starts at `offset`, also the last one without a line break."""
        start, block = self._kept
        if start <= offset < start + len(block):
            end = block.find(b"\n", offset - start) + 1
            if end:
                return block[offset - start : end]
        return self._read(offset)

    def _read(self, offset: int) -> bytes:
        descriptor, parts, size = self.file.fileno(), [], _READ_FIRST
        while part := os.pread(descriptor, size, offset):
            end = part.find(b"\n") + 1
            parts.append(part[:end] if end else part)
            if end:
                self._kept = (offset, part)
                break
            offset += len(part)
            size = min(2 * size, _READ_AT_MOST)
        return b"".join(parts)


def _line_number(file: BinaryIO, offset: int) -> int:
    """The number, from 1, of the line that starts at `offset`."""
    file.seek(0)
    number = 1
    while offset > 0 and (part := file.read(min(offset, _READ_AT_MOST))):
        number += part.count(b"\n")
        offset -= len(part)
    return number
