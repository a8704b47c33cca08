"""The folder of one Chromium: its profile, its home and its temporary files, removed at the end.

All folders lie in one private folder of the user. The process that made a folder holds a lock on it
for as long as it lives, however it dies. So a folder that can be locked is a left-over, and so is a
browser that still runs in it: `remove_leftovers` kills the browser and removes the folder. Process
numbers would not work: they are reused after a reboot, and differ between containers that share a
temporary folder.
"""

import fcntl
import logging
import os
import shutil
import signal
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from webgym.browser.chromium.process_tree import processes_naming

_REMOVE_ATTEMPTS = 3
_USER_DATA = "profile"
_LONGEST_BASE = 29
"""The path of a socket has at most 103 characters, of which the names below take 74."""
_LOGGER = logging.getLogger(__name__)


class ProfileFolder:
    """A new empty private folder. `remove` must be called."""

    def __init__(self) -> None:
        """Raises OSError if the folder cannot be made."""
        while True:
            path = Path(tempfile.mkdtemp(prefix=f"{os.getpid()}-", dir=private_folder()))
            lock = _locked(path)
            if lock is not None:
                break  # otherwise another process removes it as a left-over
        self.path = path
        self._lock = lock

    @property
    def user_data(self) -> Path:
        """For `--user-data-dir`, which identifies a left-over browser."""
        return self.path / _USER_DATA

    def remove(self) -> None:
        """Delete the folder; blocks. Can be called more than once."""
        if self._lock < 0:
            return
        _delete(self.path)
        os.close(self._lock)
        self._lock = -1


def private_folder() -> Path:
    """The private folder of the user. Raises PermissionError if another user owns it."""
    path = _base() / f"webgym-{os.getuid()}"
    with suppress(FileExistsError):
        path.mkdir(mode=0o700)
    found = path.lstat()
    private = stat.S_ISDIR(found.st_mode) and not stat.S_IMODE(found.st_mode) & 0o077
    if not private or found.st_uid != os.getuid():
        raise PermissionError(f"{path} must be a folder of mode 0700 that belongs to this user")
    return path


def _base() -> Path:
    """The folder for temporary files, unless it would make Chromium's socket paths too long."""
    base = Path(tempfile.gettempdir())
    return base if len(str(base)) <= _LONGEST_BASE else Path("/tmp")  # noqa: S108 - ours is private


def remove_leftovers() -> int:
    """Kill the browsers and remove the folders of dead servers; blocks. Returns their number."""
    removed = 0
    for path in private_folder().iterdir():
        lock = _locked(path)
        if lock is None:
            continue
        try:
            for pid in processes_naming(f"--user-data-dir={path / _USER_DATA}"):
                _LOGGER.warning("killed process %d, which outlived the server that started it", pid)
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            _delete(path)
        finally:
            os.close(lock)
        removed += 1
    return removed


def _locked(path: Path) -> int | None:
    """A lock on the folder; None if another process holds it or the folder is gone."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(descriptor).st_ino == path.stat().st_ino:
            return descriptor
    except OSError:
        pass
    os.close(descriptor)
    return None


def _delete(path: Path) -> None:
    """Tries several times, because a process that is being killed may still write."""
    for _ in range(_REMOVE_ATTEMPTS):
        shutil.rmtree(path, ignore_errors=True)
        if not path.exists():
            return
    _LOGGER.warning("%s could not be removed", path)
