"""A file that is there whole, or not at all.

Lines go to a hidden file beside the target, which takes the target's name when everything is
written and on the disk. Whatever goes wrong before, the hidden file is removed, and a file that had
the name keeps it.
"""

from pathlib import Path
from types import TracebackType
from typing import Self
from uuid import uuid4

from rollgym.store import Disk
from rollgym.store.disk import make_directory, sync_path
from rollgym.store.errors import storage_error

_DOING = "writing the export"


class FileDraft:
    """`with FileDraft(path) as draft: draft.write(line)`; leaving it without an error keeps it."""

    def __init__(self, target: Path) -> None:
        """Makes the folders above it. Raises StorageError."""
        self._target = target
        self._path = target.with_name(f".{target.name}.{uuid4().hex}.tmp")
        self._disk = Disk()
        try:
            make_directory(self._disk, target.parent)
            self._file = self._path.open("xb")
        except OSError as error:
            raise storage_error(error, target, _DOING) from error

    def write(self, line: bytes) -> None:
        """Raises StorageError."""
        try:
            self._file.write(line)
        except OSError as error:
            raise storage_error(error, self._target, _DOING) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            with self._file:
                if error is None:
                    self._file.flush()
                    self._disk.sync(self._file.fileno())
            if error is None:
                self._disk.replace(self._path, self._target)
                sync_path(self._disk, self._target.parent)
        except OSError as failure:
            if error is None:
                raise storage_error(failure, self._target, _DOING) from failure
        finally:
            self._path.unlink(missing_ok=True)
