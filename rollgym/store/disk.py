"""Every call of the store that changes the disk, in one place.

The simulation replaces `Disk` to fail, delay or crash at any of these calls.
"""

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path


class Disk:
    """The real disk."""

    def __init__(self) -> None:
        self._executor: ThreadPoolExecutor | None = None

    def write(self, descriptor: int, data: bytes) -> int:
        return os.write(descriptor, data)

    def truncate(self, descriptor: int, size: int) -> None:
        os.ftruncate(descriptor, size)

    def sync(self, descriptor: int) -> None:
        os.fsync(descriptor)

    async def sync_in_background(self, descriptor: int) -> None:
        """Sync without holding up the event loop."""
        if self._executor is None:
            self._executor = ThreadPoolExecutor(1, thread_name_prefix="rollgym-sync")
        await asyncio.get_running_loop().run_in_executor(self._executor, os.fsync, descriptor)

    def replace(self, source: Path, target: Path) -> None:
        source.replace(target)

    def close(self) -> None:
        """Wait for a sync under way and end its thread."""
        if self._executor is not None:
            self._executor.shutdown()
            self._executor = None


def sync_path(disk: Disk, path: Path) -> None:
    """Make a file's content, or the names in a directory, last."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        disk.sync(descriptor)
    finally:
        os.close(descriptor)


def write_atomically(disk: Disk, path: Path, data: bytes) -> None:
    """Replace a file so that a crash leaves the old or the new one, whole."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    descriptor = os.open(temporary, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o644)
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
