"""The control log: what was changed while a collection ran, by whom, and when.

It is a file beside the journal, `control.jsonl`, with the same rules: a change is one line, written
with one call and synced afterwards; a line that was not finished is removed when the log is opened;
each line has a checksum. It is not a part of the journal, because a journal has nothing but
attempts, also for programs of earlier versions. The file is made with the first change.
"""

import asyncio
from collections.abc import Iterator
from heapq import merge
from pathlib import Path

import msgspec

from rollgym.closing import Closable
from rollgym.records.decoding import (
    ChecksumError,
    JsonDecoder,
    line_with_checksum,
    require_checksum,
)
from rollgym.store.disk import Disk
from rollgym.store.errors import RefusedError, storage_errors
from rollgym.store.journal import Journal
from rollgym.store.layout import control_paths

CONTROL_VERSION = 1
Value = str | int | float | bool | None


class ControlChange(msgspec.Struct, frozen=True, kw_only=True):
    """One change. `time` is wall-clock time since the epoch; `by` names who asked for it.

    `command` is what was asked for, as `rollgym ctl` calls it, with its `values`.
    """

    v: int = CONTROL_VERSION
    time: float
    by: str
    command: str
    values: dict[str, Value] = {}

    def __str__(self) -> str:
        values = (
            f"{name}={'none' if value is None else value}" for name, value in self.values.items()
        )
        return " ".join((self.command, *values))


_DECODER = JsonDecoder(ControlChange)


class ControlLog(Closable):
    """The control log of an open run. The caller holds the lock of the journal."""

    def __init__(self, path: Path, disk: Disk) -> None:
        """Raises RefusedError and StorageError where an existing log cannot be used."""
        self.path = path
        self._disk = disk
        self._journal = Journal(path, disk) if path.exists() else None
        self._synced = -1  # an existing log may have changes that a killed process did not sync
        self._dirty = asyncio.Event()
        if self._journal is not None:
            self._dirty.set()
        self._sync_lock = asyncio.Lock()

    def append(self, change: ControlChange) -> None:
        """Write a change. Raises StorageError."""
        if self._journal is None:
            self._journal = Journal(self.path, self._disk)
        self._journal.append(line_with_checksum(msgspec.json.encode(change)))
        self._dirty.set()

    async def run(self) -> None:
        """Sync what is appended, until cancelled. Raises StorageError."""
        while True:
            await self._dirty.wait()
            await self.flush()

    async def flush(self) -> None:
        """Sync everything appended. Raises StorageError."""
        async with self._sync_lock:
            self._dirty.clear()
            if self._journal is not None and self._journal.appended > self._synced:
                self._synced = await self._journal.sync()

    def close(self) -> None:
        if self._journal is not None:
            self._journal.close()


def read_changes(directory: Path) -> list[ControlChange]:
    """Every change of a run, in the order of time. Raises RefusedError, StorageError.

    Those of one log stay in their order, also where the clock was set back.
    """
    logs = (_read(path) for path in control_paths(directory))
    return list(merge(*logs, key=lambda change: change.time))


def _read(path: Path) -> Iterator[ControlChange]:
    with storage_errors(path, "reading the control log"), path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.endswith(b"\n"):
                return
            try:
                change = _DECODER.decode(line)
                require_checksum(line)
            except (msgspec.DecodeError, UnicodeDecodeError, ChecksumError) as error:
                raise RefusedError(
                    f"{path}:{number}: this line is not a valid change ({error}). Nothing was "
                    "changed. Restore the file from a copy, or delete the line."
                ) from error
            yield change
