"""The delivery log: what became of each finished group.

It is a file beside the journal with the same rules: a line is written at once, so it survives a
killed process; what is answered was synced before; an unfinished last line is removed when the file
is opened; every line has a checksum. The journal says what was collected, and this file says what
was done with it.
"""

from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path

import msgspec

from rollgym.closing import Closable
from rollgym.records.decoding import (
    ChecksumError,
    JsonDecoder,
    line_with_checksum,
    require_checksum,
)
from rollgym.store import EVERY_RECORD, Disk
from rollgym.store.errors import CorruptJournalError, storage_errors
from rollgym.store.journal import GroupCommit, Journal

DELIVERIES = "deliveries.jsonl"


class DeliveryEvent(StrEnum):
    """What a line says."""

    DELIVERED = "delivered"
    ACKNOWLEDGED = "acknowledged"
    DROPPED = "dropped"


class DeliveryEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A line: a group was delivered or acknowledged by a trainer, or dropped for a reason."""

    event: DeliveryEvent
    at: float
    group: int
    trainer: str = ""
    reason: str = ""


_ENTRY = JsonDecoder(DeliveryEntry)


class DeliveryLog(Closable):
    """The log of one pool. The caller holds the lock of the run, and calls `open` first."""

    def __init__(self, directory: Path, disk: Disk) -> None:
        self.path = directory / DELIVERIES
        self._disk = disk
        self._journal: Journal | None = None
        self._commit: GroupCommit

    def open(self) -> None:
        """Open the file for appending, and remove an unfinished last line. Raises StorageError."""
        self._journal = Journal(self.path, self._disk)
        self._commit = GroupCommit(self._journal, EVERY_RECORD)

    def read(self) -> Iterator[DeliveryEntry]:
        """Every entry. Raises CorruptJournalError, StorageError."""
        with storage_errors(self.path, "reading the deliveries"), self.path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                try:
                    require_checksum(line)
                    yield _ENTRY.decode(line)
                except (msgspec.DecodeError, UnicodeDecodeError, ChecksumError) as error:
                    raise CorruptJournalError(self.path, number, str(error)) from error

    def append(self, entry: DeliveryEntry) -> None:
        """Write an entry. It survives this process, but is not synced. Raises StorageError."""
        self._commit.append(line_with_checksum(msgspec.json.encode(entry)))

    async def sync(self) -> None:
        """On return, every entry so far survives a power failure. Raises StorageError."""
        await self._commit.flush()

    def close(self) -> None:
        if self._journal is not None:
            self._journal.close()
            self._journal = None
