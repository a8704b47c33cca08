"""Derived files: files that are made from a run's journal and can be made again.

Only the journal is authoritative. A derived file is appended to during a collection and reconciled
with the journal after a process died: if its content is a prefix of the expected content, the
missing lines are appended; otherwise the file is rewritten.
"""

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rollgym.closing import Closable
from rollgym.store.disk import BUFFER, Disk, sync_path, write_all
from rollgym.store.errors import StorageError, storage_errors

_BATCH = 1 << 20


class DerivedFile(Closable):
    """A derived file, open for appending. A symbolic link is followed."""

    def __init__(self, path: Path, disk: Disk | None = None) -> None:
        """Raises StorageError."""
        self.path = Path(os.path.realpath(path))
        self._disk = disk or Disk()
        self._descriptor: int | None = None
        self._size = 0
        with storage_errors(self.path, "opening the file"):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._open()

    def append(self, lines: bytes) -> None:
        """Append whole lines, which readers see at once. Raises StorageError."""
        with storage_errors(self.path, "writing the file"):
            write_all(self._disk, self._opened, lines)
            self._size += len(lines)

    def reconcile(self, lines: Callable[[], Iterable[bytes]]) -> None:
        """Make the file hold exactly these lines. Raises StorageError, and what `lines` raises."""
        with storage_errors(self.path, "reconciling the file"):
            self._open()
            if self._size == 0 or not self._continue(iter(lines())):
                _replace(self._disk, self.path, lines())
                self._open()

    def is_intact(self) -> bool:
        """Whether the path still names this file, with the size that was written."""
        try:
            status = self.path.stat()
        except OSError:
            return False
        same = os.path.samestat(status, os.fstat(self._opened))
        return same and status.st_size == self._size

    def sync(self) -> None:
        """Raises StorageError."""
        with storage_errors(self.path, "syncing the file"):
            self._disk.sync(self._opened)

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    @property
    def _opened(self) -> int:
        if self._descriptor is None:
            raise StorageError(f"{self.path} is closed")
        return self._descriptor

    def _open(self) -> None:
        """Open the file that the path names now."""
        self.close()
        self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        self._size = os.fstat(self._descriptor).st_size

    def _continue(self, lines: Iterator[bytes]) -> bool:
        """Append the missing lines to a prefix of them. False where the content differs."""
        kept, missing = 0, b""
        with self.path.open("rb") as present:
            for line in lines:
                found = present.read(len(line))
                if found == line:
                    kept += len(line)
                elif line.startswith(found):
                    missing = line
                    break
                else:
                    return False
        if kept < self._size:
            self._disk.truncate(self._opened, kept)
            self._size = kept
        for batch in _batches(missing, lines):
            self.append(batch)
        return True


class WriteLock:
    """Lets one thread at a time write the derived files of a run.

    An observer that hangs on a dead disk is left behind with the lock, so waiting for it has a
    bound.
    """

    def __init__(self, path: Path, timeout: float) -> None:
        """`path` is the file that the error names; `timeout` is in seconds."""
        self._path = path
        self._timeout = timeout
        self._lock = threading.Lock()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Raises StorageError when another thread does not release the lock in time."""
        if not self._lock.acquire(timeout=self._timeout):
            raise StorageError(
                f"{self._path}: the disk did not finish an earlier write within "
                f"{self._timeout:.0f} s"
            )
        try:
            yield
        finally:
            self._lock.release()


def write_derived(path: Path, parts: Iterable[bytes]) -> None:
    """Replace a file as a whole, or leave it unchanged on an error. Raises StorageError."""
    target = Path(os.path.realpath(path))
    with storage_errors(target, "writing the file"):
        target.parent.mkdir(parents=True, exist_ok=True)
        _replace(Disk(), target, parts)


def _replace(disk: Disk, path: Path, parts: Iterable[bytes]) -> None:
    """Write a draft, sync it, and rename it over the old file."""
    # Always the same name, so that the next process replaces the draft of a killed one.
    draft = path.with_name(f".{path.name}.tmp")
    try:
        with draft.open("wb", BUFFER) as file:
            file.writelines(parts)
            file.flush()
            disk.sync(file.fileno())
        disk.replace(draft, path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    sync_path(disk, path.parent)


def _batches(first: bytes, lines: Iterator[bytes]) -> Iterator[bytes]:
    """Join lines into pieces of about a megabyte, to save calls."""
    batch, size = [first], len(first)
    for line in lines:
        if size >= _BATCH:
            yield b"".join(batch)
            batch, size = [], 0
        batch.append(line)
        size += len(line)
    yield b"".join(batch)
