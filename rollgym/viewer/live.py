"""Whether a collection is still running.

One of three signs is enough: its files grew a moment ago; a process holds the lock of its run; its
monitor was written a moment ago and does not say that it is finished. Locks are tried only every
few seconds, because a collection that starts while one is tried would find it taken.
"""

import time
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from rollgym.store import FileLock, StorageError
from rollgym.store.layout import RUN_LOCK, shard_locks
from rollgym.viewer.source import ViewerSource
from rollgym.viewer.values import UNREADABLE

GROWING_SECONDS = 10.0
MONITOR_SECONDS = 30.0
LOCK_SECONDS = 5.0
LARGEST_MONITOR = 1 << 24

Snapshot: TypeAlias = dict[str, Any]
_SNAPSHOT = msgspec.json.Decoder(Snapshot)


class _MonitorState(msgspec.Struct):
    """The fields of a monitor's snapshot that matter here."""

    time: float = 0.0
    finished: bool = False


class LiveCheck:
    """Checks one source. For one thread at a time."""

    def __init__(self, source: ViewerSource) -> None:
        self._source = source
        self._size = 0
        self._grew: float | None = None
        self._locked = False
        self._lock_tried: float | None = None

    def is_live(self) -> bool:
        if self._is_growing() or self._is_locked():
            return True
        return any(map(_is_current, read_monitors(self._source)))

    def _is_growing(self) -> bool:
        size, age = 0, GROWING_SECONDS
        for part in self._source.parts:
            with suppress(OSError):  # it does not exist yet, or was removed
                about = part.path.stat()
                size += about.st_size
                age = min(age, max(0.0, time.time() - about.st_mtime))
        now = time.monotonic()
        if size != self._size:
            # For the first size only the modification time says how old it is.
            self._grew = now if self._size else now - age
            self._size = size
        return self._grew is not None and now - self._grew < GROWING_SECONDS

    def _is_locked(self) -> bool:
        now = time.monotonic()
        if self._lock_tried is None or now - self._lock_tried >= LOCK_SECONDS:
            self._lock_tried = now
            manifest = self._source.manifest
            self._locked = manifest is not None and _is_run_locked(manifest.parent)
        return self._locked


def _is_current(snapshot: Snapshot) -> bool:
    try:
        moment = msgspec.convert(snapshot, _MonitorState)
    except msgspec.ValidationError:
        return False
    return not moment.finished and time.time() - moment.time < MONITOR_SECONDS


def read_monitors(source: ViewerSource) -> list[Snapshot]:
    """The last snapshot of each monitor of a source; unreadable ones are left out."""
    followed = (path for path in source.monitors if not source.leads_out(path))
    return [found for path in followed if (found := _snapshot(path)) is not None]


def _snapshot(path: Path) -> Snapshot | None:
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST_MONITOR + 1)
        return _SNAPSHOT.decode(data) if len(data) <= LARGEST_MONITOR else None
    except (OSError, *UNREADABLE):
        return None


def _is_run_locked(run: Path) -> bool:
    try:
        return any(FileLock(lock).is_held() for lock in (run / RUN_LOCK, *shard_locks(run)))
    except (StorageError, OSError):  # the folder is read-only, so the lock cannot be tried
        return False
