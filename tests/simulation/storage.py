"""What a machine's disk really holds: how far each file is synced, and which names would last.

It outlives the simulated processes. A process that dies leaves everything it wrote. A machine that
dies (`lose_power`) keeps what was synced; of the rest it keeps an arbitrary part.
"""

import os
import stat
from pathlib import Path
from random import Random
from typing import NamedTuple


class _Renaming(NamedTuple):
    """A file that has taken a name, and what stood there before."""

    target: Path
    before: bytes | None


class Storage:
    """The disk under one run directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._synced: dict[int, int] = {}
        self._renamings: list[_Renaming] = []

    def synced(self, descriptor: int) -> int:
        """How many bytes of a file would survive the machine."""
        return self._synced.get(os.fstat(descriptor).st_ino, 0)

    def note_sync(self, descriptor: int, size: int | None = None) -> None:
        """A sync is done, of everything or of the first `size` bytes."""
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            self._renamings.clear()
            return
        self._synced[status.st_ino] = status.st_size if size is None else size

    def note_truncation(self, descriptor: int, size: int) -> None:
        inode = os.fstat(descriptor).st_ino
        self._synced[inode] = min(self._synced.get(inode, 0), size)

    def note_renaming(self, target: Path) -> None:
        """To be called before a file takes the name `target`."""
        self._renamings.append(_Renaming(target, target.read_bytes() if target.exists() else None))

    def lose_power(self, random: Random) -> None:
        """Remove unsynced data, or a part of it."""
        for renaming in reversed(self._renamings):
            if random.random() < 0.5:
                self._undo(renaming)
        self._renamings.clear()
        for path in sorted(self.directory.glob("*.json*")):
            status = path.stat()
            synced = min(self._synced.get(status.st_ino, 0), status.st_size)
            if synced < status.st_size:
                os.truncate(path, random.randint(synced, status.st_size))

    def _undo(self, renaming: _Renaming) -> None:
        if renaming.before is None:
            renaming.target.unlink(missing_ok=True)
        else:
            renaming.target.write_bytes(renaming.before)
