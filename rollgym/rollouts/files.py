"""The files of a collection: kept up with its journal while it runs, and put right from it.

`RolloutFiles` is an observer. What it is told of it reads back from the journal and appends. It may
be killed or miss events; `put_right` compares with the journal and repairs, before a collection and
whenever something was missed.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from rollgym.engine import AttemptRecorded, Event
from rollgym.records import Attempt, Completed, Failed
from rollgym.rollouts.numbers import UsualNumbers
from rollgym.rollouts.output_row import failure_row, input_row, output_row
from rollgym.rollouts.paths import RolloutPaths
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

Holds = Callable[[int], bool]


def completed_attempts(directory: Path, holds: Holds) -> Iterator[Attempt]:
    """The standing records of completed rollouts. Raises StoreError."""
    for entry, stands in read_records(journal_paths(directory)):
        attempt = entry.attempt
        if stands and isinstance(attempt.outcome, Completed) and holds(attempt.task):
            yield attempt


class RolloutFiles:
    """The output and the failures of one run, or of the part of it that `holds` names."""

    name = "rollout files"

    def __init__(
        self, paths: RolloutPaths, directory: Path, holds: Holds, first_seed: int | None = None
    ) -> None:
        """`first_seed` is what `input_row` takes. Raises InputsError, StorageError."""
        self._paths = paths
        self._first_seed = first_seed
        self._directory = directory
        self._holds = holds
        with ExitStack() as opened:
            self._tasks = opened.enter_context(TaskLookup(inputs_path(directory)))
            self._records = opened.enter_context(RecordLookup())
            self._output = opened.enter_context(DerivedFile(paths.output))
            self._failures = opened.enter_context(DerivedFile(paths.failures))
            self._numbers = opened.enter_context(UsualNumbers())
            self._opened = opened.pop_all()
        self._all_counted = True
        self._lock = WriteLock(paths.output, WRITE_TIMEOUT)
        self._settled = 0

    def observe(self, events: Sequence[Event]) -> None:
        """Append what was recorded."""
        settled = self._settled
        for start in range(0, len(events), _BATCH):
            part = [e for e in events[start : start + _BATCH] if isinstance(e, AttemptRecorded)]
            output = [self._counted_line(self._recorded(e)) for e in part if _is(e, Completed)]
            failures = [self._failure_line(self._recorded(e)) for e in part if _is(e, Failed)]
            with self._lock.held():
                # One that was left behind must not write what has been put right since.
                if self._settled != settled:
                    return
                self._output.append(b"".join(output))
                self._failures.append(b"".join(failures))

    def put_right(self) -> None:
        """Make the files what the journal says. Raises StoreError."""
        with self._lock.held():
            self._settled += 1
            if next(self._completed(), None) is not None:
                self._all_counted = False
            self._output.reconcile(lambda: map(self._output_line, self._completed()))
            self._failures.reconcile(lambda: map(self._failure_line, self._failed()))
            self._sync()

    def finish(self, *, missed: bool) -> None:
        """The collection is over; `missed` tells that not every event came. Raises StoreError."""
        self._all_counted = self._all_counted and not missed
        if missed or not (self._output.is_intact() and self._failures.is_intact()):
            self.put_right()
        else:
            self._sync()

    @property
    def numbers(self) -> UsualNumbers | None:
        """The usual numbers of all completed rollouts, where every one of them was observed."""
        return self._numbers if self._all_counted else None

    def write_materialized_inputs(self) -> None:
        """One row for each rollout, as its agent gets it. Raises StoreError."""
        with DerivedFile(self._paths.materialized_inputs) as file:
            file.reconcile(self._input_lines)

    def close(self) -> None:
        self._opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _sync(self) -> None:
        self._output.sync()
        self._failures.sync()

    def _completed(self) -> Iterator[Attempt]:
        return completed_attempts(self._directory, self._holds)

    def _failed(self) -> Iterator[Attempt]:
        for entry, _ in read_records(journal_paths(self._directory)):
            if isinstance(entry.attempt.outcome, Failed) and self._holds(entry.attempt.task):
                yield entry.attempt

    def _recorded(self, event: AttemptRecorded) -> Attempt:
        return self._records.record(event.journal, event.offset)

    def _counted_line(self, attempt: Attempt) -> bytes:
        task = self._tasks.task(attempt.task)
        self._numbers.add(task, attempt)
        return output_row(task, attempt, self._first_seed).raw + b"\n"

    def _output_line(self, attempt: Attempt) -> bytes:
        return output_row(self._tasks.task(attempt.task), attempt, self._first_seed).raw + b"\n"

    def _failure_line(self, attempt: Attempt) -> bytes:
        return failure_row(self._tasks.task(attempt.task), attempt).raw + b"\n"

    def _input_lines(self) -> Iterator[bytes]:
        for task in read_tasks(inputs_path(self._directory)):
            if self._holds(task.index):
                for repeat in range(task.repeats):
                    yield input_row(task, repeat, self._first_seed).raw + b"\n"


def _is(event: AttemptRecorded, outcome: type[Completed | Failed]) -> bool:
    return isinstance(event.attempt.outcome, outcome)
