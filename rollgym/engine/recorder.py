"""Recording ended attempts.

The records of one turn of the collection's loop are written at its end, and acknowledged by a later
sync, in their order. Only then is a record counted and passed to the listener and to observers.
Observers may miss events. The listener gets every record, on the event loop, and an error that it
raises stops the collection. A rollout that is refilled is reopened when its record counts.
"""

import weakref
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from rollgym.engine.coverage import Ledger
from rollgym.engine.observers import AttemptRecorded, Observers, RolloutsReopened, WholeRecord
from rollgym.engine.refill import Refills
from rollgym.engine.work import OpenRollout
from rollgym.records import NOTHING, Attempt, Failed, Failure, Omitted, Outcome, RecordError
from rollgym.store import AppendedRecord, RunStore

LATEST_BYTES = 4 << 20

Listener = Callable[[AttemptRecorded, bool], None]
"""Gets every synced record, and whether it is final and no rollout of its task is open any more."""


class _UnsyncedRecord(msgspec.Struct):
    """A record that is not synced yet, without its result."""

    attempt: Attempt
    offset: int
    replaced: Failed | Omitted | None
    refilled: bool
    whole: "weakref.ref[WholeRecord]"


class Recorded(NamedTuple):
    """A record of the journal, and whether its rollout is refilled."""

    attempt: Attempt
    refilled: bool


class _LatestRecords:
    """The latest whole records, up to a number of bytes: observers need not read them back."""

    def __init__(self) -> None:
        self._records: deque[tuple[WholeRecord, int]] = deque()
        self._size = 0

    def keep(self, record: WholeRecord, size: int) -> None:
        self._records.append((record, size))
        self._size += size
        while self._size > LATEST_BYTES:
            self._size -= self._records.popleft()[1]


class Recorder:
    """Writes attempts to the store and counts them in the ledger."""

    def __init__(
        self,
        store: RunStore,
        ledger: Ledger,
        observers: Observers,
        *,
        refills: Refills,
        counted: Callable[[], None],
        listener: Listener | None = None,
    ) -> None:
        """`counted` is called after further records were counted."""
        self._refills = refills
        self._store = store
        self._ledger = ledger
        self._observers = observers
        self._counted = counted
        self._listener = listener
        self._watched = bool(observers) or listener is not None
        self._unsynced: deque[_UnsyncedRecord] = deque()
        self._latest = _LatestRecords()
        store.commit.on_durable(self._acknowledge)

    async def record(
        self, rollout: OpenRollout, outcome: Outcome, seconds: float, *, final: bool
    ) -> Recorded:
        """Record the rollout's latest attempt and return its record. Raises StorageError.

        The returned record has no result. An outcome that cannot be written becomes a final
        failure. What another process has encoded is written as it is, unless its outcome changed.
        """
        item, encoded = rollout.item, rollout.encoded
        if encoded is not None and encoded.attempt.outcome is outcome and final:
            written = self._store.add_line(encoded.line, encoded.attempt)
            return await self._recorded(rollout, written, encoded.prepared)
        attempt = Attempt(
            task=item.task.index,
            repeat=item.repeat,
            repeats=item.task.repeats,
            attempt=rollout.attempt,
            final=final,
            seed=item.seed,
            started=rollout.started_wall,
            seconds=seconds,
            outcome=outcome,
        )
        try:
            written = self._store.add(attempt)
        except RecordError as error:
            unusable = Failed(Failure.of(error))
            attempt = msgspec.structs.replace(attempt, outcome=unusable, final=True)
            written = self._store.add(attempt)
        return await self._recorded(rollout, written)

    async def _recorded(
        self, rollout: OpenRollout, written: AppendedRecord, prepared: bytes = b""
    ) -> Recorded:
        task, attempt = rollout.item.task, written.attempt
        whole = WholeRecord(task, attempt, prepared)
        if self._watched:
            self._latest.keep(whole, written.size + len(task.row.raw) + len(prepared))
        if attempt.outcome.result is not NOTHING:
            slim = msgspec.structs.replace(attempt.outcome, result=NOTHING)
            attempt = msgspec.structs.replace(attempt, outcome=slim)
        replaced = rollout.replaces if attempt.final else None
        refilled = attempt.final and self._refills.refill(attempt)
        self._unsynced.append(
            _UnsyncedRecord(attempt, written.offset, replaced, refilled, weakref.ref(whole))
        )
        await self._store.commit.keep_pace()
        return Recorded(attempt, refilled)

    def _acknowledge(self, count: int) -> None:
        for _ in range(count):
            written = self._unsynced.popleft()
            attempt = written.attempt
            self._ledger.acknowledge(attempt)
            if written.refilled:
                self._store.progress.refill(attempt.key)
            if self._watched:
                path = self._store.journal_path
                event = AttemptRecorded(
                    attempt, path, written.offset, written.replaced, written.whole
                )
                self._observers.put(event)
                if written.refilled:
                    self._observers.put(RolloutsReopened(1))
                if self._listener is not None:
                    last = attempt.final and self._store.progress.is_over(
                        attempt.task, attempt.repeats
                    )
                    self._listener(event, last)
        self._counted()
