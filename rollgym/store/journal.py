"""The append-only journal, one record per line, and the group commit that syncs it.

*Writing.* Records that exist at the same time go to the file in one `write` call, and then survive
a killed process. They are acknowledged after a later `fsync`, so an acknowledged record survives a
power failure. The write is a copy into the page cache; the sync, which waits for the device, never
runs on the event loop.

*Group commit.* Many records share one sync. `GroupCommit.run`, a background service, syncs and
acknowledges the appended records every `max_delay` seconds. When `max_unsynced` records have
gathered before that, `keep_pace` syncs them and waits, so the number of unsynced records is
bounded. With `EVERY_RECORD` it syncs after each record.

*Failing.* After the first failed write or sync the journal is broken and rejects further records:
a failed sync may have lost pages, and a second sync would report success for them. A partly
written line is removed.

*Opening.* Bytes after the last line break are a record whose writing was interrupted; they are
removed, and the removal is reported.
"""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import msgspec

from rollgym.store.disk import SYNC_TIMEOUT, Disk, sync_path, sync_within, write_all
from rollgym.store.errors import StorageError, StorageVanishedError, storage_error, storage_errors

MOST_UNWRITTEN = 1 << 20
"""The bytes that are written before `write` is called."""
_BLOCK = 1 << 16


class TornTail(msgspec.Struct, frozen=True):
    """An unfinished last record that was removed."""

    path: Path
    offset: int
    size: int

    def __str__(self) -> str:
        return (
            f"{self.path}: removed {self.size} bytes after byte {self.offset}, a record whose "
            "writing was interrupted. Its rollout runs again."
        )


class Journal:
    """A journal open for appending. The caller holds its lock."""

    def __init__(self, path: Path, disk: Disk) -> None:
        """Open the file and remove an unfinished last record. Raises StorageError."""
        self.path = path
        self.appended = 0
        self._disk = disk
        self._broken: StorageError | None = None
        with storage_errors(path, "opening the journal"):
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
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

    def append(self, *lines: bytes) -> int:
        """Write whole lines and return the offset of the first. Raises StorageError."""
        if self._broken:
            raise self._broken
        offset, data = self.end, b"".join(lines)
        try:
            write_all(self._disk, self._descriptor, data)
        except OSError as error:
            self._broken = storage_error(error, self.path, "writing a record")
            self._remove_partial(self._broken)
            raise self._broken from error
        self.end += len(data)
        self.appended += len(lines)
        return offset

    async def sync(self) -> int:
        """Sync everything appended so far; return the number of records appended since opening.

        Raises StorageError, also when the path now names another file: records written to a
        deleted file are lost.
        """
        if self._broken:
            raise self._broken
        count = self.appended
        try:
            await sync_within(self._disk, self._descriptor, self.path, SYNC_TIMEOUT)
            self._require_same_file()
        except OSError as error:
            self._broken = storage_error(error, self.path, "syncing the journal")
            raise self._broken from error
        except StorageError as error:
            self._broken = error
            raise
        return count

    def _require_same_file(self) -> None:
        if not os.path.samestat(os.fstat(self._descriptor), self.path.stat()):
            raise StorageVanishedError(
                f"{self.path}: the file was replaced by another one during the run"
            )

    def close(self) -> None:
        """Close the file, unless a sync that does not return still uses it."""
        if self._disk.close():
            os.close(self._descriptor)

    def _remove_partial(self, why: StorageError) -> None:
        try:
            written = os.fstat(self._descriptor).st_size
            self._disk.truncate(self._descriptor, whole_lines(self._descriptor, written))
        except OSError as error:
            why.add_note(f"the partly written record could not be removed: {error}")


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


class SyncPolicy(msgspec.Struct, frozen=True):
    """The longest wait for a sync, in seconds, and the most records that may wait for one."""

    max_delay: float = 0.1
    max_unsynced: int = 4096

    def __post_init__(self) -> None:
        if self.max_delay < 0 or self.max_unsynced < 1:
            raise ValueError("max_delay must be at least 0 and max_unsynced at least 1")


EVERY_RECORD = SyncPolicy(max_delay=0.0, max_unsynced=1)


class GroupCommit:
    """Writes to a journal, syncs it in groups, and acknowledges the synced records."""

    def __init__(self, journal: Journal, policy: SyncPolicy) -> None:
        self._journal = journal
        self._policy = policy
        self._durable = 0
        self._unwritten: list[bytes] = []
        self._unwritten_size = 0
        self._acknowledge: Callable[[int], None] = lambda _count: None
        self._dirty = asyncio.Event()
        self._sync_lock = asyncio.Lock()

    def on_durable(self, acknowledge: Callable[[int], None]) -> None:
        """Set the function called after each sync with the number of newly synced records."""
        self._acknowledge = acknowledge

    def append(self, line: bytes) -> int:
        """Write a line and return its offset. Raises StorageError."""
        offset = self.add(line)
        self.write()
        return offset

    def add(self, line: bytes) -> int:
        """Keep a line for the next `write`, and return its offset. Raises StorageError."""
        offset = self._journal.end + self._unwritten_size
        self._unwritten.append(line)
        self._unwritten_size += len(line)
        if self._unwritten_size >= MOST_UNWRITTEN:
            self.write()
        return offset

    def write(self) -> None:
        """Write the lines that were added, in one call. Raises StorageError."""
        if self._unwritten:
            lines, self._unwritten, self._unwritten_size = self._unwritten, [], 0
            self._journal.append(*lines)
            self._dirty.set()

    async def keep_pace(self) -> None:
        """Await this after every record: it waits for a sync when too many are unsynced."""
        recorded = self._journal.appended + len(self._unwritten)
        if recorded - self._durable >= self._policy.max_unsynced:
            await self.flush()

    async def run(self) -> None:
        """Sync regularly until cancelled. Raises StorageError."""
        while True:
            await self._dirty.wait()
            await asyncio.sleep(self._policy.max_delay)
            await self.flush()

    async def flush(self) -> None:
        """Write, sync and acknowledge all records so far. Raises StorageError."""
        self.write()  # before it waits for a sync: only what is written survives a kill
        async with self._sync_lock:
            if self._durable == self._journal.appended:
                return
            self._dirty.clear()
            durable = await self._journal.sync()
            count, self._durable = durable - self._durable, durable
            self._acknowledge(count)
