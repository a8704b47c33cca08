"""Pickled trajectories that may be taken back: those of failed rollouts, which may run again."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from rollgym.records import RolloutKey
from rollgym.store import Disk
from rollgym.store.disk import write_all
from rollgym.store.errors import storage_error


class FragmentShelf:
    """Fragments by rollout, in a nameless file: in memory there are a few words for each.

    For one thread at a time.
    """

    def __init__(self, folder: Path, disk: Disk | None = None) -> None:
        """Raises StorageError."""
        self._folder = folder
        self._disk = disk or Disk()
        self._places: dict[RolloutKey, tuple[int, int]] = {}
        self._size = 0
        try:
            self._file = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115
        except OSError as error:
            raise storage_error(error, folder, "making a draft of failed trajectories") from error

    def __len__(self) -> int:
        return len(self._places)

    def put(self, key: RolloutKey, fragment: bytes) -> None:
        """Keep the fragment of a rollout, in place of the one it had. Raises StorageError."""
        try:
            os.lseek(self._file.fileno(), self._size, os.SEEK_SET)
            write_all(self._disk, self._file.fileno(), fragment)
        except OSError as error:
            raise storage_error(error, self._folder, "drafting a failed trajectory") from error
        self._places[key] = (self._size, len(fragment))
        self._size += len(fragment)

    def drop(self, key: RolloutKey) -> None:
        """Forget that of a rollout, if there is one."""
        self._places.pop(key, None)

    def clear(self) -> None:
        self._places.clear()
        self._size = 0

    def fragments(self) -> Iterator[bytes]:
        """Every fragment that is kept, one at a time. Raises OSError."""
        for offset, length in self._places.values():
            yield os.pread(self._file.fileno(), length, offset)

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
