"""The disk as a simulated process sees it: real files, with faults and a death by plan.

Every operation has a number. At the number of its `Death` the process dies, before the operation
or, where that is a write, in the middle of it; from then on every operation dies too. A `DiskFault`
strikes at the first fitting operation from its number on.
"""

import asyncio
import errno
import os
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path

import msgspec

from rollgym.store import Disk
from tests.simulation.storage import Storage

HANG_SECONDS = 10_000.0


class SimulatedCrash(BaseException):
    """The process is dead; nothing may catch this."""


class Death(msgspec.Struct, frozen=True):
    """The end of a process: at an operation of its disk, or at a time.

    `torn` is the part of a write that is still done. With the `machine` dies what is unsynced, by
    `luck`.
    """

    operation: int | None = None
    at: float | None = None
    torn: float = 0.0
    machine: bool = False
    luck: int = 0


class FaultKind(StrEnum):
    """How a disk fails."""

    SHORT_WRITE = "short write"
    NO_SPACE = "no space"
    ERROR = "one error"
    BROKEN = "errors for ever"
    HUNG_SYNC = "hung sync"


class DiskFault(msgspec.Struct, frozen=True):
    """One failure; `part` is how much of a write is done before it."""

    operation: int
    kind: FaultKind
    part: float = 0.5


class SimulatedDisk(Disk):
    """Carries out the operations of one process, unless the plan says otherwise."""

    def __init__(
        self,
        storage: Storage,
        *,
        sync_seconds: float = 0.0,
        death: Death | None = None,
        fault: DiskFault | None = None,
        on_death: Callable[[SimulatedCrash], None] = lambda _crash: None,
        on_write: Callable[[int, bytes], None] = lambda _descriptor, _data: None,
    ) -> None:
        super().__init__()
        self.operations = 0
        self.crash: SimulatedCrash | None = None
        self.struck: FaultKind | None = None
        self._storage = storage
        self._sync_seconds = sync_seconds
        self._death = death
        self._fault = fault
        self._on_death = on_death
        self._on_write = on_write
        self._hung: int | None = None

    def write(self, descriptor: int, data: bytes) -> int:
        if self._begin("writing"):
            assert self._death is not None
            self._put(descriptor, data[: int(self._death.torn * len(data))])
            raise self.die("writing")
        part = self._part_to_write(data)
        return self._put(descriptor, data if part is None else part)

    def truncate(self, descriptor: int, size: int) -> None:
        self._step("truncating")
        self._fail_if_due(FaultKind.ERROR, FaultKind.BROKEN)
        os.ftruncate(descriptor, size)
        self._storage.note_truncation(descriptor, size)

    def sync(self, descriptor: int) -> None:
        self._step("syncing")
        self._fail_if_due(FaultKind.ERROR, FaultKind.BROKEN)
        self._storage.note_sync(descriptor)

    async def sync_in_background(self, descriptor: int) -> None:
        self._step("syncing in the background")
        size = os.fstat(descriptor).st_size
        if self._strikes(FaultKind.HUNG_SYNC):
            self._hung = descriptor
            await asyncio.sleep(HANG_SECONDS)
        await asyncio.sleep(self._sync_seconds)
        if self.crash is not None:
            raise self.crash
        self._fail_if_due(FaultKind.ERROR, FaultKind.BROKEN)
        self._storage.note_sync(descriptor, size)

    def replace(self, source: Path, target: Path) -> None:
        self._step("renaming")
        self._fail_if_due(FaultKind.ERROR, FaultKind.BROKEN)
        self._storage.note_renaming(target)
        source.replace(target)

    def die(self, doing: str) -> SimulatedCrash:
        """End the process; returns what to raise."""
        self.crash = SimulatedCrash(f"died {doing}, at operation {self.operations}")
        self._on_death(self.crash)
        return self.crash

    def close(self) -> bool:
        """Whether the journal may close its file: not under a sync that never came back."""
        return self._hung is None

    def bury(self) -> None:
        """Close what the operating system would: the file under a sync that never came back."""
        if self._hung is not None:
            os.close(self._hung)
            self._hung = None

    def _begin(self, doing: str) -> bool:
        """Count an operation. Whether the process is to die at it."""
        if self.crash is not None:
            raise self.crash
        self.operations += 1
        return self._death is not None and self._death.operation == self.operations

    def _step(self, doing: str) -> None:
        if self._begin(doing):
            raise self.die(doing)

    def _put(self, descriptor: int, data: bytes) -> int:
        written = os.write(descriptor, data)
        self._on_write(descriptor, data[:written])
        return written

    def _part_to_write(self, data: bytes) -> bytes | None:
        """The part of a write that is done before the fault; None for all of it."""
        fault = self._fault
        if fault is None or self.operations < fault.operation:
            return None
        if fault.kind is FaultKind.HUNG_SYNC or (
            self.struck and fault.kind in (FaultKind.ERROR, FaultKind.SHORT_WRITE)
        ):
            return None
        first, self.struck = self.struck is None, fault.kind
        part = data[: int(fault.part * len(data))]
        if first and part and fault.kind is not FaultKind.ERROR:
            return part
        if fault.kind is FaultKind.SHORT_WRITE:
            return None
        raise _system_error(errno.ENOSPC if fault.kind is FaultKind.NO_SPACE else errno.EIO)

    def _strikes(self, *kinds: FaultKind) -> bool:
        """Whether the fault is one of these and strikes now."""
        fault = self._fault
        if fault is None or fault.kind not in kinds or self.operations < fault.operation:
            return False
        if self.struck and fault.kind is FaultKind.ERROR:
            return False
        self.struck = fault.kind
        return True

    def _fail_if_due(self, *kinds: FaultKind) -> None:
        if self._strikes(*kinds):
            raise _system_error(errno.EIO)


def _system_error(number: int) -> OSError:
    return OSError(number, os.strerror(number))
