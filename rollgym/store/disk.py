"""The disk operations that a run's durability depends on, and file locks.

*Disk.* Writing, truncating, syncing and renaming. The simulation replaces `Disk` to fail, delay or
crash at any of these calls.

*Locks.* A run has one writer per journal. `FileLock` is an advisory `flock`, which the operating
system releases when its process ends.
"""

import asyncio
import contextlib
import errno
import fcntl
import os
import socket
import threading
import time
from functools import partial
from pathlib import Path
from uuid import uuid4
from weakref import WeakSet

from rollgym.plugins import start_daemon_thread
from rollgym.store.errors import RunBusyError, StorageError, storage_error, storage_errors

CLOSE_TIMEOUT = 5.0
SYNC_TIMEOUT = 60.0
EXTRA_WAIT = 1.0
LOCK_TIMEOUT = 10.0
BUFFER = 1 << 16
"""Bytes of a buffer for files that are read or written as a whole, instead of a block of 4 KiB."""
_POLL = 0.02
_held: "WeakSet[FileLock]" = WeakSet()


class Disk:
    """The real disk."""

    def __init__(self) -> None:
        self._syncing: list[threading.Thread] = []

    def write(self, descriptor: int, data: bytes) -> int:
        return os.write(descriptor, data)

    def truncate(self, descriptor: int, size: int) -> None:
        os.ftruncate(descriptor, size)

    def sync(self, descriptor: int) -> None:
        """Wait until the device has the data. On macOS `fsync` reaches only the device's cache."""
        if hasattr(fcntl, "F_FULLFSYNC"):
            with contextlib.suppress(OSError):  # not every file system supports it
                fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
                return
        os.fsync(descriptor)

    async def sync_in_background(self, descriptor: int) -> None:
        """Sync without blocking the event loop.

        It uses a daemon thread, because a thread that waits for a dead disk must not delay the
        exit of the process.
        """
        try:
            thread, done = start_daemon_thread(partial(self.sync, descriptor), "rollgym-sync")
        except RuntimeError as error:  # the limit on threads is reached
            raise OSError(errno.EAGAIN, str(error)) from error
        self._syncing = [each for each in self._syncing if each.is_alive()]
        self._syncing.append(thread)
        await done

    def replace(self, source: Path, target: Path) -> None:
        source.replace(target)

    def close(self) -> bool:
        """Wait briefly for running syncs; return whether their files can be closed."""
        deadline = time.monotonic() + CLOSE_TIMEOUT
        for thread in self._syncing:
            thread.join(max(0.0, deadline - time.monotonic()))
        return not any(thread.is_alive() for thread in self._syncing)


def sync_path(disk: Disk, path: Path) -> None:
    """Sync the content of a file, or the names in a directory."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        disk.sync(descriptor)
    finally:
        os.close(descriptor)


async def sync_within(disk: Disk, descriptor: int, path: Path, seconds: float) -> None:
    """Sync a file in the background. Raises OSError, or StorageError where the disk hangs.

    The event loop itself may have been blocked for that long, so it waits once more before it
    reports the disk.
    """
    syncing = asyncio.ensure_future(disk.sync_in_background(descriptor))
    try:
        for timeout in (seconds, EXTRA_WAIT):
            await asyncio.wait({syncing}, timeout=timeout)
            if syncing.done():
                return syncing.result()
    finally:
        syncing.cancel()
    raise StorageError(f"{path}: the disk did not finish a sync within {seconds:.0f} s")


def make_directory(disk: Disk, path: Path) -> None:
    """Make a directory and its parents, and sync their names."""
    if path.is_dir():
        # The process that made it may have died before this. An unreadable parent is not ours.
        with contextlib.suppress(PermissionError):
            sync_path(disk, path.parent)
        return
    make_directory(disk, path.parent)
    path.mkdir(exist_ok=True)
    sync_path(disk, path.parent)


def write_atomically(disk: Disk, path: Path, data: bytes) -> None:
    """Replace a file so that a crash leaves either the old or the new file."""
    temporary = path.with_name(f".{path.name}.{uuid4().hex}.tmp")
    descriptor = os.open(temporary, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o644)
    try:
        try:
            write_all(disk, descriptor, data)
            disk.sync(descriptor)
        finally:
            os.close(descriptor)
        disk.replace(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    sync_path(disk, path.parent)


async def replace_in_background(disk: Disk, path: Path, data: bytes, seconds: float) -> None:
    """As `write_atomically`, without blocking the event loop. Raises OSError, StorageError."""
    temporary = path.with_name(f".{path.name}.{uuid4().hex}.tmp")
    descriptor = os.open(temporary, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o644)
    try:
        write_all(disk, descriptor, data)
        await sync_within(disk, descriptor, path, seconds)
        disk.replace(temporary, path)
    except (OSError, StorageError):
        temporary.unlink(missing_ok=True)
        raise
    finally:
        os.close(descriptor)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        await sync_within(disk, directory, path.parent, seconds)
    finally:
        os.close(directory)


def write_all(disk: Disk, descriptor: int, data: bytes) -> None:
    """Write with one call; call again only after a partial write."""
    written = disk.write(descriptor, data)
    while written < len(data):
        written += disk.write(descriptor, data[written:])


class FileLock:
    """An exclusive or shared `flock`. The file holds the name of its last exclusive holder."""

    def __init__(self, path: Path, *, shared: bool = False) -> None:
        self.path = path
        self._shared = shared
        self._descriptor: int | None = None

    def try_acquire(self) -> bool:
        """Try once and return whether the lock is held now. Raises StorageError."""
        with storage_errors(self.path, "acquiring the lock"):
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
        mode = fcntl.LOCK_SH if self._shared else fcntl.LOCK_EX
        try:
            fcntl.flock(descriptor, mode | fcntl.LOCK_NB)
            replaced = not os.path.samestat(os.fstat(descriptor), self.path.stat())
        except (BlockingIOError, FileNotFoundError):
            os.close(descriptor)
            return False
        except OSError as error:
            os.close(descriptor)
            raise storage_error(error, self.path, "acquiring the lock") from error
        if replaced:  # another process renamed the directory meanwhile
            os.close(descriptor)
            return False
        if not self._shared:
            holder = f"process {os.getpid()} on {socket.gethostname()}"
            with contextlib.suppress(OSError):  # the lock is held even when the disk is full
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, holder.encode(), 0)
        self._descriptor = descriptor
        _held.add(self)
        return True

    def is_held(self) -> bool:
        """Whether any process holds the lock now."""
        probe = FileLock(self.path, shared=True)
        if not self.path.exists() or probe.try_acquire():
            probe.release()
            return False
        return True

    def acquire(self, what: str) -> None:
        """Wait for a lock that is held only briefly. Raises RunBusyError."""
        deadline = time.monotonic() + LOCK_TIMEOUT
        while not self.try_acquire():
            if time.monotonic() > deadline:
                raise RunBusyError(
                    f"{what} is locked by {self.holder()}, which did not release the lock within "
                    f"{LOCK_TIMEOUT:.0f} s: wait for that process or stop it"
                )
            time.sleep(_POLL)

    def holder(self) -> str:
        with contextlib.suppress(OSError):
            return self.path.read_text("utf-8", "replace") or "another process"
        return "another process"

    def release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
            _held.discard(self)


def _release_in_child() -> None:
    """A forked child would otherwise hold the lock after its parent ended."""
    for lock in list(_held):
        lock.release()


os.register_at_fork(after_in_child=_release_in_child)
