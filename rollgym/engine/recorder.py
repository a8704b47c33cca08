"""Recording ended attempts.

A record is written at once and acknowledged by a later sync, in the order of writing. Only then is
it counted and passed to observers.
"""

from collections import deque
from collections.abc import Callable

import msgspec

from rollgym.engine.coverage import Ledger
from rollgym.engine.observers import AttemptRecorded, Observers
from rollgym.engine.work import OpenRollout
from rollgym.records import NOTHING, Attempt, Failed, Failure, Omitted, Outcome, RecordError
from rollgym.store import RunStore


class _UnsyncedRecord(msgspec.Struct):
    """A record that is written but not yet synced, without its result."""

    attempt: Attempt
    offset: int
    replaced: Failed | Omitted | None


class Recorder:
    """Writes attempts to the store and counts them in the ledger."""

    def __init__(
        self, store: RunStore, ledger: Ledger, observers: Observers, counted: Callable[[], None]
    ) -> None:
        """`counted` is called after further records were counted."""
        self._store = store
        self._ledger = ledger
        self._observers = observers
        self._counted = counted
        self._unsynced: deque[_UnsyncedRecord] = deque()
        store.commit.on_durable(self._acknowledge)

    async def record(
        self, rollout: OpenRollout, outcome: Outcome, seconds: float, *, final: bool
    ) -> Attempt:
        """Write the rollout's latest attempt and return its record. Raises StorageError.

        The returned record has no result. An outcome that cannot be written becomes a final
        failure.
        """
        item = rollout.item
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
            offset = self._store.append(attempt)
        except RecordError as error:
            unusable = Failed(Failure.of(error))
            attempt = msgspec.structs.replace(attempt, outcome=unusable, final=True)
            offset = self._store.append(attempt)
        if attempt.outcome.result is not NOTHING:
            slim = msgspec.structs.replace(attempt.outcome, result=NOTHING)
            attempt = msgspec.structs.replace(attempt, outcome=slim)
        self._unsynced.append(
            _UnsyncedRecord(attempt, offset, rollout.replaces if attempt.final else None)
        )
        await self._store.commit.keep_pace()
        return attempt

    def _acknowledge(self, count: int) -> None:
        for _ in range(count):
            written = self._unsynced.popleft()
            attempt = written.attempt
            self._ledger.attempts += 1
            if attempt.final:
                self._ledger.acknowledge_outcome(attempt.task, attempt.outcome, written.replaced)
            if self._observers:
                path = self._store.journal_path
                self._observers.put(
                    AttemptRecorded(attempt, path, written.offset, written.replaced)
                )
        self._counted()
