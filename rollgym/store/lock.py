"""One writer per journal: advisory file locks that die with their process."""

import contextlib
import fcntl
import os
import socket
import time
from pathlib import Path
from weakref import WeakSet

from rollgym.store.errors import RunBusyError, storage_error

OPENING_PATIENCE = 10.0
_POLL = 0.02
_held: "WeakSet[FileLock]" = WeakSet()


class FileLock:
    """An exclusive or shared `flock`. The file names its last exclusive holder for messages."""

    def __init__(self, path: Path, *, shared: bool = False) -> None:
        self.path = path
        self._shared = shared
        self._descriptor: int | None = None

    def try_acquire(self) -> bool:
        """Whether we have it now. Raises StorageError where the file cannot be opened."""
        try:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise storage_error(error, self.path, "taking the lock") from error
        mode = fcntl.LOCK_SH if self._shared else fcntl.LOCK_EX
        try:
            fcntl.flock(descriptor, mode | fcntl.LOCK_NB)
            replaced = not os.path.samestat(os.fstat(descriptor), self.path.stat())
        except (BlockingIOError, FileNotFoundError):
            os.close(descriptor)
            return False
        except OSError as error:
            os.close(descriptor)
            raise storage_error(error, self.path, "taking the lock") from error
        if replaced:  # somebody put the directory aside while we waited
            os.close(descriptor)
            return False
        if not self._shared:
            holder = f"process {os.getpid()} on {socket.gethostname()}"
            with contextlib.suppress(OSError):  # on a full disk we have the lock all the same
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, holder.encode(), 0)
        self._descriptor = descriptor
        _held.add(self)
        return True

    def is_held(self) -> bool:
        """Whether somebody has it now. Leaves no trace."""
        probe = FileLock(self.path, shared=True)
        if not self.path.exists() or probe.try_acquire():
            probe.release()
            return False
        return True

    def acquire_soon(self, what: str) -> None:
        """Wait for a lock that others hold only for moments. Raises RunBusyError."""
        deadline = time.monotonic() + OPENING_PATIENCE
        while not self.try_acquire():
            if time.monotonic() > deadline:
                raise RunBusyError(
                    f"{what} has been held by {self.holder()} for {OPENING_PATIENCE:.0f} s"
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
    """A forked child shares the lock, and would hold it after the death of its parent."""
    for lock in list(_held):
        lock.release()


os.register_at_fork(after_in_child=_release_in_child)
