"""The errors of the store: one tree with two branches.

`RefusedError`: the run was not opened and nothing was changed; the user decides what to do.
`StorageError`: a disk operation failed; acknowledged records are intact.
"""

import errno
from pathlib import Path


class StoreError(Exception):
    """Base of every error of the store."""


class RefusedError(StoreError):
    """The run was not opened.

    `is_misuse` says that the command itself is wrong, and not what it refers to.
    """

    is_misuse = False


class RunBusyError(RefusedError):
    """Another process is writing this run."""


class IdentityError(RefusedError):
    """The directory holds a different run than the requested one."""


class ManifestError(RefusedError):
    """The manifest cannot be read."""


class InputsError(RefusedError):
    """The inputs cannot be used."""


class RecordVersionError(RefusedError):
    """A journal holds a record of a later schema version."""


class CorruptJournalError(RefusedError):
    """A complete line of a journal is not a valid record."""

    def __init__(self, path: Path, line: int, reason: str) -> None:
        super().__init__(
            f"{path}:{line}: this line is not a valid record ({reason}). Nothing was changed. "
            "Restore the file from a copy, or delete the line to run its rollout again."
        )
        self.path = path
        self.line = line


class StorageError(StoreError):
    """A disk operation failed."""


class DiskFullError(StorageError):
    """No space is left, or the quota is used up."""


class StorageDeniedError(StorageError):
    """Not permitted, or read-only."""


class StorageVanishedError(StorageError):
    """The file or its directory no longer exists."""


_KINDS: dict[int, tuple[type[StorageError], str]] = {
    errno.ENOSPC: (DiskFullError, "free some space and run the same command again"),
    errno.EDQUOT: (DiskFullError, "free some of your quota and run the same command again"),
    errno.EFBIG: (DiskFullError, "raise the limit on file sizes and run the same command again"),
    errno.EACCES: (StorageDeniedError, "check the owner and mode of the file and its directory"),
    errno.EPERM: (StorageDeniedError, "check the owner and mode of the file and its directory"),
    errno.EROFS: (StorageDeniedError, "the file system is read-only: choose another directory"),
    errno.ENOENT: (StorageVanishedError, "check the path; was it moved or deleted during the run?"),
    errno.EEXIST: (StorageError, "a file of that name exists: choose another name"),
    errno.ENOTDIR: (StorageVanishedError, "a part of the path is a file, not a directory"),
    errno.ESTALE: (StorageVanishedError, "the network file system lost the file"),
}


def storage_error(error: OSError, path: Path, doing: str) -> StorageError:
    """Return the typed error for an OSError about `path` that happened while `doing` something."""
    kind, advice = _KINDS.get(error.errno or 0, (StorageError, ""))
    message = f"{path}: {error.strerror or error} while {doing}"
    return kind(f"{message}: {advice}" if advice else message)


class storage_errors:  # noqa: N801 - reads as a statement: `with storage_errors(path, "writing"):`
    """Turn an OSError in this block into the typed error for `path`; see `storage_error`."""

    __slots__ = ("_doing", "_path")

    def __init__(self, path: Path, doing: str) -> None:
        self._path = path
        self._doing = doing

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, OSError):
            raise storage_error(error, self._path, self._doing) from error
