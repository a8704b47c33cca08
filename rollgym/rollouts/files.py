"""The files of a collection: appended to while it runs, and reconciled with its journal.

`RolloutFiles` is an observer. It appends the row of each recorded attempt, which it reads back from
the journal where it is no longer in memory. It may be killed or miss events, so `reconcile`
compares the files with the journal and repairs them, before a collection and whenever events were
missed.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Self

import msgspec

from rollgym.closing import Closable
from rollgym.engine import AttemptRecorded, Event
from rollgym.records import Attempt, Completed, Failed, Task
from rollgym.rollouts.aggregate import (
    CountedRollout,
    DefaultMetrics,
    HoldsTask,
    completed_attempts,
)
from rollgym.rollouts.output_row import RecordedResult, failure_row, input_row, output_row
from rollgym.rollouts.paths import RolloutPaths
from rollgym.rollouts.rows import STORED_ROLLOUTS, RepeatSeeds, without_fields
from rollgym.store import (
    DerivedFile,
    RecordLookup,
    TaskLookup,
    WriteLock,
    inputs_path,
    journal_paths,
    read_records,
    read_tasks,
)

WRITE_TIMEOUT = 60.0
_BATCH = 256
_STORED_ROLLOUTS = STORED_ROLLOUTS.encode()


class PreparedRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The line of a completed rollout in the output, and what the metrics count of it.

    A worker process makes it of the record, so the driver need not.
    """

    line: bytes
    counted: CountedRollout

    @classmethod
    def of(cls, task: Task, attempt: Attempt, seeds: RepeatSeeds | None) -> Self:
        result = RecordedResult.of(attempt)
        counted = CountedRollout.of(task, attempt, result)
        return cls(output_row(task, attempt, seeds, result).raw + b"\n", counted)

    def encode(self) -> bytes:
        return _ENCODE(self)


_ENCODE = msgspec.msgpack.Encoder().encode
_PREPARED = msgspec.msgpack.Decoder(PreparedRow)


class RolloutFiles(Closable):
    """The output and the failures of a run, or of its tasks that `holds` names."""

    name = "rollout files"

    def __init__(
        self,
        paths: RolloutPaths,
        directory: Path,
        holds: HoldsTask,
        seeds: RepeatSeeds | None = None,
    ) -> None:
        """`seeds` is what `input_row` takes. Raises InputsError, StorageError."""
        self.paths = paths
        self._seeds = seeds
        self._directory = directory
        self._holds = holds
        with ExitStack() as opened:
            self._tasks = opened.enter_context(TaskLookup(inputs_path(directory)))
            self._records = opened.enter_context(RecordLookup())
            self._output = opened.enter_context(DerivedFile(paths.output))
            self._failures = opened.enter_context(DerivedFile(paths.failures))
            self._metrics = opened.enter_context(DefaultMetrics())
            self._opened = opened.pop_all()
        self._all_counted = True
        self._lock = WriteLock(paths.output, WRITE_TIMEOUT)
        self._reconciled = 0

    def observe(self, events: Sequence[Event]) -> None:
        """Append the rows of recorded attempts."""
        reconciled = self._reconciled
        for start in range(0, len(events), _BATCH):
            part = [e for e in events[start : start + _BATCH] if isinstance(e, AttemptRecorded)]
            output = [self._counted_line(e) for e in part if _is(e, Completed)]
            failures = [failure_row(*self._recorded(e)).raw + b"\n" for e in part if _is(e, Failed)]
            with self._lock.held():
                # An abandoned call must not write into files that were reconciled since.
                if self._reconciled != reconciled:
                    return
                self._output.append(b"".join(output))
                self._failures.append(b"".join(failures))

    def reconcile(self) -> None:
        """Make the files agree with the journal. Raises StoreError."""
        with self._lock.held():
            self._reconciled += 1
            if next(self._completed(), None) is not None:
                self._all_counted = False
            self._output.reconcile(lambda: map(self._output_line, self._completed()))
            self._failures.reconcile(lambda: map(self._failure_line, self._failed()))
            self._sync()

    def finish(self, *, missed: bool) -> None:
        """End the collection; `missed` says that events were dropped. Raises StoreError."""
        self._all_counted = self._all_counted and not missed
        if missed or not (self._output.is_intact() and self._failures.is_intact()):
            self.reconcile()
        else:
            self._sync()

    @property
    def metrics(self) -> DefaultMetrics | None:
        """The default metrics of all completed rollouts; None where some were not observed."""
        return self._metrics if self._all_counted else None

    def write_materialized_inputs(self, *, repeats: bool = False) -> None:
        """Write one row for each task; with `repeats` one for each rollout, as its agent gets it.

        Raises StoreError.
        """
        with DerivedFile(self.paths.materialized_inputs) as file:
            file.reconcile(self._rollout_lines if repeats else self._task_lines)

    def close(self) -> None:
        self._opened.close()

    def _sync(self) -> None:
        self._output.sync()
        self._failures.sync()

    def _completed(self) -> Iterator[Attempt]:
        return completed_attempts(self._directory, self._holds)

    def _failed(self) -> Iterator[Attempt]:
        for entry, _ in read_records(journal_paths(self._directory)):
            if isinstance(entry.attempt.outcome, Failed) and self._holds(entry.attempt.task):
                yield entry.attempt

    def _recorded(self, event: AttemptRecorded) -> tuple[Task, Attempt]:
        if whole := event.whole():
            return whole.task, whole.attempt
        attempt = self._records.record(event.journal, event.offset)
        return self._tasks.task(attempt.task), attempt

    def _counted_line(self, event: AttemptRecorded) -> bytes:
        whole = event.whole()
        if whole is not None and whole.prepared:
            row = _PREPARED.decode(whole.prepared)
        else:
            row = PreparedRow.of(*self._recorded(event), self._seeds)
        self._metrics.add(event.attempt, row.counted)
        return row.line

    def _output_line(self, attempt: Attempt) -> bytes:
        return output_row(self._tasks.task(attempt.task), attempt, self._seeds).raw + b"\n"

    def _failure_line(self, attempt: Attempt) -> bytes:
        return failure_row(self._tasks.task(attempt.task), attempt).raw + b"\n"

    def _task_lines(self) -> Iterator[bytes]:
        for task in self._own_tasks():
            row = task.row
            if _STORED_ROLLOUTS in row.raw:  # nearly no row has it: most need not be decoded
                row = without_fields(row, (STORED_ROLLOUTS,))
            yield row.raw + b"\n"

    def _rollout_lines(self) -> Iterator[bytes]:
        for task in self._own_tasks():
            for repeat in range(task.repeats):
                yield input_row(task, repeat, self._seeds).raw + b"\n"

    def _own_tasks(self) -> Iterator[Task]:
        tasks = read_tasks(inputs_path(self._directory))
        return (task for task in tasks if self._holds(task.index))


def _is(event: AttemptRecorded, outcome: type[Completed | Failed]) -> bool:
    return isinstance(event.attempt.outcome, outcome)
