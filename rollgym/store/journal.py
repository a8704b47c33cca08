"""The append-only journal: one record a line, whole lines only.

*Writing.* A record goes to the file in one `write` call the moment it exists, so it survives the
death of the process. It is acknowledged after a later `fsync`, so what is acknowledged survives
the death of the machine. The write goes to the page cache and is a copy in memory; the sync, which
waits for the device, never runs on the event loop.

*Failing.* After the first failed write or sync the journal is broken and takes nothing more: a
sync that failed once may have lost pages, and asking again would lie. A partly written line is cut
off again.

*Opening.* Bytes after the last line break are a record whose writing was cut short; they are cut
off and the cut is reported.
"""

import asyncio
import os
from pathlib import Path

import msgspec

from rollgym.store.disk import Disk, sync_path, write_all
from rollgym.store.errors import StorageError, StorageVanishedError, storage_error

SYNC_PATIENCE = 60.0
SECOND_LOOK = 1.0
_BLOCK = 1 << 16


class TornTail(msgspec.Struct, frozen=True):
    """An unfinished last record that was cut off."""

    path: Path
    offset: int
    size: int

    def __str__(self) -> str:
        return (
            f"{self.path}: cut off {self.size} bytes after byte {self.offset}, a record whose "
            "writing was interrupted; its rollout runs again"
        )


class Journal:
    """A journal open for appending. The caller holds its lock."""

    def __init__(self, path: Path, disk: Disk) -> None:
        """Raises StorageError where the file cannot be opened or its torn end not cut off."""
        self.path = path
        self.appended = 0
        self._disk = disk
        self._broken: StorageError | None = None
        try:
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        except OSError as error:
            raise storage_error(error, path, "opening the journal") from error
        try:
            size = os.fstat(self._descriptor).st_size
            self.end = whole_lines(self._descriptor, size)
            self.torn = TornTail(path, self.end, size - self.end) if self.end < size else None
            if self.torn:
                disk.truncate(self._descriptor, self.end)
                disk.sync(self._descriptor)
            sync_path(disk, path.parent)
        except BaseException as error:
            os.close(self._descriptor)
            if isinstance(error, OSError):
                raise storage_error(error, path, "preparing the journal") from error
            raise

    def append(self, line: bytes) -> int:
        """Write one whole line and return its offset. Raises StorageError."""
        if self._broken:
            raise self._broken
        offset = self.end
        try:
            write_all(self._disk, self._descriptor, line)
        except OSError as error:
            self._broken = storage_error(error, self.path, "writing a record")
            self._cut_back(offset, self._broken)
            raise self._broken from error
        self.end += len(line)
        self.appended += 1
        return offset

    async def sync(self) -> int:
        """Make everything appended so far last; returns how many records that is, since opening.

        Raises StorageError, also when the file is no longer the one at its path: what is written
        to a deleted file is lost with it.
        """
        if self._broken:
            raise self._broken
        count = self.appended
        try:
            await self._sync_within(SYNC_PATIENCE)
            self._require_same_file()
        except OSError as error:
            self._broken = storage_error(error, self.path, "syncing the journal")
            raise self._broken from error
        except StorageError as error:
            self._broken = error
            raise
        return count

    async def _sync_within(self, seconds: float) -> None:
        """Raises OSError, or StorageError when the disk does not answer.

        A loop that was itself held up for so long must not blame the disk, so it looks twice.
        """
        syncing = asyncio.ensure_future(self._disk.sync_in_background(self._descriptor))
        try:
            for patience in (seconds, SECOND_LOOK):
                await asyncio.wait({syncing}, timeout=patience)
                if syncing.done():
                    return syncing.result()
        finally:
            syncing.cancel()
        raise StorageError(f"{self.path}: the disk did not answer a sync within {seconds:.0f} s")

    def _require_same_file(self) -> None:
        if not os.path.samestat(os.fstat(self._descriptor), self.path.stat()):
            raise StorageVanishedError(f"{self.path}: another file has taken its place")

    def close(self) -> None:
        """Release the file, except under a sync that does not come back and still uses it."""
        if self._disk.close():
            os.close(self._descriptor)

    def _cut_back(self, size: int, why: StorageError) -> None:
        try:
            self._disk.truncate(self._descriptor, size)
        except OSError as error:
            why.add_note(f"the partly written record could not be cut off: {error}")


def whole_lines(descriptor: int, size: int) -> int:
    """The length of the file up to and with its last line break."""
    end = size
    while end > 0:
        start = max(0, end - _BLOCK)
        position = os.pread(descriptor, end - start, start).rfind(b"\n")
        if position >= 0:
            return start + position + 1
        end = start
    return 0
