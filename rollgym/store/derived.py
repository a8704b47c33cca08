"""Files that are made from a run's journal, and can be made again.

The journal is the truth. A derived file is appended to while a run goes on, and is put right from
the journal whenever a process died in between: a torn last line is cut off, missing lines are
added, and a file that holds anything else is written anew.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from rollgym.store.disk import Disk, sync_path
from rollgym.store.errors import storage_error

_BLOCK = 1 << 16


class DerivedFile:
    """One such file, open for appending."""

    def __init__(self, path: Path, disk: Disk | None = None) -> None:
        """Cuts off a torn last line. Raises StorageError."""
        self.path = path
        self._disk = disk or Disk()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._opened()
        except OSError as error:
            raise storage_error(error, path, "opening the file") from error

    def append(self, lines: bytes) -> None:
        """Whole lines, to be seen by others at once. Raises StorageError."""
        try:
            self._file.write(lines)
            self._file.flush()
        except OSError as error:
            raise storage_error(error, self.path, "writing the file") from error

    def replace(self, lines: Iterable[bytes]) -> None:
        """Write it anew; until that is done the old file is there. Raises StorageError."""
        draft = self.path.with_name(f".{self.path.name}.{os.getpid()}.tmp")
        try:
            with draft.open("wb") as file:
                file.writelines(lines)
                file.flush()
                self._disk.sync(file.fileno())
            self._disk.replace(draft, self.path)
            sync_path(self._disk, self.path.parent)
            self._file.close()
            self._file = self._opened()
        except OSError as error:
            draft.unlink(missing_ok=True)
            raise storage_error(error, self.path, "writing the file") from error

    def sync(self) -> None:
        """Raises StorageError."""
        try:
            self._disk.sync(self._file.fileno())
        except OSError as error:
            raise storage_error(error, self.path, "syncing the file") from error

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _opened(self) -> BinaryIO:
        file = self.path.open("ab")
        whole = _whole_lines(self.path)
        if whole < file.tell():
            file.truncate(whole)
        return file


def write_derived(path: Path, parts: Iterable[bytes], disk: Disk | None = None) -> None:
    """Write a small derived file, atomically. Raises StorageError."""
    with DerivedFile(path, disk) as file:
        file.replace(parts)


def _whole_lines(path: Path) -> int:
    """How many bytes of the file are whole lines."""
    with path.open("rb") as file:
        end = file.seek(0, os.SEEK_END)
        while end > 0:
            start = max(0, end - _BLOCK)
            file.seek(start)
            newline = file.read(end - start).rfind(b"\n")
            if newline >= 0:
                return start + newline + 1
            end = start
    return 0
