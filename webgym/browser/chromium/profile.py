"""The folder of one Chromium: its profile, its home, its temporary files. Gone when it is gone.

All lie in one private folder of the user. The process that made a folder holds a lock on it for as
long as it lives, however it dies. So a folder whose lock can be had is a left-over, and with it
whatever browser still runs on it: `remove_leftovers` ends and removes both. That works where
process numbers would mislead: across reboots, and between containers that share a temporary folder.
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
"""A socket has 103 characters at most, of which the names below take 74."""
_LOGGER = logging.getLogger(__name__)


class ProfileFolder:
    """A fresh folder, empty and ours alone. `remove` it in the end."""

    def __init__(self) -> None:
        """Raises OSError where none can be made."""
        while True:
            path = Path(tempfile.mkdtemp(prefix=f"{os.getpid()}-", dir=private_folder()))
            lock = _locked(path)
            if lock is not None:
                break  # otherwise somebody took the new folder for a left-over
        self.path = path
        self._lock = lock

    @property
    def user_data(self) -> Path:
        """For `--user-data-dir`, by which a left-over browser is known."""
        return self.path / _USER_DATA

    def remove(self) -> None:
        """Delete it with all that it holds; blocks. Harmless when repeated."""
        if self._lock < 0:
            return
        _delete(self.path)
        os.close(self._lock)
        self._lock = -1


def private_folder() -> Path:
    """The user's own folder for these. Raises PermissionError where it is somebody else's."""
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
    """End and remove what dead processes left behind; blocks. Returns how many folders it was."""
    removed = 0
    for path in private_folder().iterdir():
        lock = _locked(path)
        if lock is None:
            continue
        try:
            for pid in processes_naming(f"--user-data-dir={path / _USER_DATA}"):
                _LOGGER.warning("process %d outlived the server that started it: killed", pid)
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            _delete(path)
        finally:
            os.close(lock)
        removed += 1
    return removed


def _locked(path: Path) -> int | None:
    """A lock on the folder, or None: another process has it, or the folder is gone."""
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
    """A process that is being killed may still write, so once is not always enough."""
    for _ in range(_REMOVE_ATTEMPTS):
        shutil.rmtree(path, ignore_errors=True)
        if not path.exists():
            return
    _LOGGER.warning("%s could not be removed", path)
