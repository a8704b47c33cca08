"""The snapshot as a file, for viewers: replaced as a whole, so that readers never see half of it.

While the run goes on it is not forced to the disk: after a loss of power nobody looks at the
present moment of then. The last snapshot is.
"""

from pathlib import Path

import msgspec

from rollgym.store import Disk
from rollgym.store.disk import write_atomically
from webgym.monitor.snapshot import MonitorSnapshot, SnapshotError, read_snapshot

LARGEST_FILE = 1 << 24


class _Hasty(Disk):
    """Does not wait for the device."""

    def sync(self, descriptor: int) -> None:
        """Nothing."""


def write_snapshot(path: Path, snapshot: MonitorSnapshot) -> None:
    """Replace the file. Raises OSError."""
    disk = Disk() if snapshot.finished else _Hasty()
    write_atomically(disk, path, msgspec.json.encode(snapshot))


class SnapshotFile:
    """The latest snapshot in a file that another process may be writing."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def snapshot(self) -> MonitorSnapshot | None:
        """None where there is no file yet. Raises SnapshotError, OSError."""
        try:
            with self._path.open("rb") as file:
                data = file.read(LARGEST_FILE + 1)
        except FileNotFoundError:
            return None
        if len(data) > LARGEST_FILE:
            raise SnapshotError(f"{self._path} has more than {LARGEST_FILE} bytes: no snapshot")
        return read_snapshot(data)
