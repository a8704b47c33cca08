"""Writing, cutting, syncing and renaming: what a run's durability hangs on, in one place.

The simulation replaces `Disk` to fail, delay or crash at any of these calls.
"""

import asyncio
import contextlib
import errno
import fcntl
import os
import threading
from pathlib import Path
from uuid import uuid4

CLOSING_PATIENCE = 5.0


class Disk:
    """The real disk."""

    def __init__(self) -> None:
        self._syncing: threading.Thread | None = None

    def write(self, descriptor: int, data: bytes) -> int:
        return os.write(descriptor, data)

    def truncate(self, descriptor: int, size: int) -> None:
        os.ftruncate(descriptor, size)

    def sync(self, descriptor: int) -> None:
        """Wait until the device has it. On macOS `fsync` alone stops at the device's own cache."""
        if hasattr(fcntl, "F_FULLFSYNC"):
            with contextlib.suppress(OSError):  # not every file system has it
                fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
                return
        os.fsync(descriptor)

    async def sync_in_background(self, descriptor: int) -> None:
        """Sync without holding up the event loop.

        In a daemon thread, because one that waits for a dead disk must not hold up the exit.
        """
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()

        def settle(error: OSError | None) -> None:
            if done.cancelled():
                return
            if error is None:
                done.set_result(None)
            else:
                done.set_exception(error)

        def work() -> None:
            failure: OSError | None = None
            try:
                self.sync(descriptor)
            except OSError as error:
                failure = error
            with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
                loop.call_soon_threadsafe(settle, failure)

        thread = threading.Thread(target=work, name="rollgym-sync", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # no more threads to be had
            raise OSError(errno.EAGAIN, str(error)) from error
        self._syncing = thread
        await done

    def replace(self, source: Path, target: Path) -> None:
        source.replace(target)

    def close(self) -> bool:
        """Wait a little for a sync under way. Whether it is over, and its file can be closed."""
        if self._syncing is not None:
            self._syncing.join(CLOSING_PATIENCE)
            return not self._syncing.is_alive()
        return True


def sync_path(disk: Disk, path: Path) -> None:
    """Make a file's content, or the names in a directory, last."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        disk.sync(descriptor)
    finally:
        os.close(descriptor)


def make_directory(disk: Disk, path: Path) -> None:
    """Make a directory with those above it, and their names last."""
    if path.is_dir():
        # Whoever made it may not have come to this; a parent we may not read was not ours.
        with contextlib.suppress(PermissionError):
            sync_path(disk, path.parent)
        return
    make_directory(disk, path.parent)
    path.mkdir(exist_ok=True)
    sync_path(disk, path.parent)


def write_atomically(disk: Disk, path: Path, data: bytes) -> None:
    """Replace a file so that a crash leaves the old or the new one, whole."""
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


def write_all(disk: Disk, descriptor: int, data: bytes) -> None:
    """Write with one call; go on only where the system took a part."""
    written = disk.write(descriptor, data)
    while written < len(data):
        written += disk.write(descriptor, data[written:])
