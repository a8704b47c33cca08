"""What happened in one life of the process, as seen from outside the engine."""

import os
from pathlib import Path
from typing import NamedTuple

from tests.simulation.loop import SimulatedLoop
from tests.simulation.records import Key, Record, parse_record
from tests.simulation.storage import Storage


class Pulled(NamedTuple):
    """The engine took a task from the source."""

    at: float
    task: int


class Started(NamedTuple):
    """A worker began."""

    at: float
    key: Key
    attempt: int
    seed: int
    deadline: float


class Cancelled(NamedTuple):
    """A worker was cancelled for the first time."""

    at: float
    key: Key
    attempt: int


class Ended(NamedTuple):
    """A worker is over; `reward` is the usable one it returned."""

    at: float
    key: Key
    attempt: int
    how: str
    reward: float | None


class Written(NamedTuple):
    """A whole record is in the journal, which now ends at `end`."""

    at: float
    record: Record
    end: int


class Acknowledged(NamedTuple):
    """The store declared this record lasting; `synced` is how far the journal really is."""

    at: float
    written: Written
    synced: int


class Asked(NamedTuple):
    """The collection was asked to stop or to change, or cancelled."""

    at: float
    what: str


class Over(NamedTuple):
    """The engine said that no rollout of this task is to run any more."""

    at: float
    task: int


Event = Pulled | Started | Cancelled | Ended | Written | Acknowledged | Asked | Over


class Log:
    """The events of one life, in order, until its loop closes."""

    def __init__(self, loop: SimulatedLoop, storage: Storage) -> None:
        self.events: list[Event] = []
        self.written: list[Written] = []
        self.acknowledged: list[Written] = []
        self._loop = loop
        self._storage = storage
        self._journal: Path | None = None
        self._descriptor = -1
        self._partial = b""

    @property
    def now(self) -> float:
        return self._loop.time()

    def add(self, event: Event) -> None:
        if not self._loop.closing:
            self.events.append(event)

    def follow(self, journal: Path) -> None:
        """From now on what is written to this journal are records."""
        self._journal = journal

    def write(self, descriptor: int, data: bytes) -> None:
        """Bytes went to the disk; whole lines of the journal become records."""
        if self._journal is None or not _is_open(descriptor, self._journal):
            return
        self._descriptor = descriptor
        *lines, self._partial = (self._partial + data).split(b"\n")
        end = os.fstat(descriptor).st_size - len(self._partial)
        end -= sum(len(line) + 1 for line in lines)
        for line in lines:
            end += len(line) + 1
            written = Written(self.now, parse_record(self._journal.name, line + b"\n"), end)
            self.written.append(written)
            self.add(written)

    def acknowledge(self, count: int) -> None:
        """The store says that so many more records last."""
        synced = self._storage.synced(self._descriptor) if count else 0
        for _ in range(count):
            written = self.written[len(self.acknowledged)]
            self.acknowledged.append(written)
            self.add(Acknowledged(self.now, written, synced))


def _is_open(descriptor: int, path: Path) -> bool:
    """Whether this is the file at the path, and not the control log beside it."""
    return os.path.samestat(os.fstat(descriptor), path.stat())
