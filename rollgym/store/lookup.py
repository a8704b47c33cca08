"""Single records of large files, found without reading the rest."""

import os
from array import array
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO, Self

from rollgym.records import Attempt, Task, decode_attempt
from rollgym.store.errors import CorruptJournalError, InputsError, storage_error
from rollgym.store.inputs import decode_task

_READ_FIRST = 4 * 1024
_READ_AT_MOST = 1024 * 1024


class TaskLookup:
    """The tasks of a materialised file by their index, in 8 bytes of memory each.

    Where the indexes are not simply counted from 0 it takes more, but still no row.
    """

    def __init__(self, path: Path) -> None:
        """Reads the file once. Raises InputsError, StorageError."""
        self._path = path
        self._offsets = array("Q")
        self._places: dict[int, int] | None = None
        try:
            with ExitStack() as opened:
                self._file = opened.enter_context(path.open("rb"))
                self._read_offsets()
                opened.pop_all()
        except OSError as error:
            raise storage_error(error, path, "reading the inputs") from error

    def task(self, index: int) -> Task:
        """Raises KeyError for an index that no task has, InputsError, StorageError."""
        place = index if self._places is None else self._places[index]
        if not 0 <= place < len(self._offsets):
            raise KeyError(index)
        try:
            line = _line_at(self._file, self._offsets[place])
            return decode_task(line)
        except OSError as error:
            raise storage_error(error, self._path, "reading the inputs") from error
        except ValueError as error:
            raise InputsError(f"{self._path}: task {index} cannot be read ({error})") from error

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read_offsets(self) -> None:
        offset, indexes = 0, array("Q")
        for number, line in enumerate(self._file, start=1):
            try:
                indexes.append(decode_task(line).index)
            except (ValueError, OverflowError) as error:
                raise InputsError(f"{self._path}:{number}: this is no task ({error})") from error
            self._offsets.append(offset)
            offset += len(line)
        if any(index != place for place, index in enumerate(indexes)):
            self._places = {index: place for place, index in enumerate(indexes)}


class RecordLookup:
    """The records of journals by where they stand."""

    def __init__(self) -> None:
        self._files: dict[Path, BinaryIO] = {}

    def record(self, journal: Path, offset: int) -> Attempt:
        """Raises CorruptJournalError, StorageError."""
        try:
            file = self._files.get(journal)
            if file is None:
                file = self._files[journal] = journal.open("rb")
            return decode_attempt(_line_at(file, offset))
        except OSError as error:
            raise storage_error(error, journal, "reading the journal") from error
        except ValueError as error:
            raise CorruptJournalError(journal, 0, f"at byte {offset}: {error}") from error

    def close(self) -> None:
        for file in self._files.values():
            file.close()
        self._files.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _line_at(file: BinaryIO, offset: int) -> bytes:
    """The line that begins there."""
    descriptor, parts, size = file.fileno(), [], _READ_FIRST
    while part := os.pread(descriptor, size, offset):
        end = part.find(b"\n") + 1
        parts.append(part[:end] if end else part)
        if end:
            break
        offset += len(part)
        size = min(2 * size, _READ_AT_MOST)
    return b"".join(parts)
