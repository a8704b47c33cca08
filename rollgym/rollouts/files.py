"""The files of a collection: kept up with its journal while it runs, and put right from it.

`RolloutFiles` is an observer. What it is told of it reads back from the journal and appends. It may
be killed or miss events; `put_right` compares with the journal and repairs, and is called before
and after every collection.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from rollgym.engine import AttemptRecorded, Event
from rollgym.records import Attempt, Completed, Failed, Row, Task
from rollgym.rollouts.output_row import failure_row, input_row, output_row
from rollgym.rollouts.paths import RolloutPaths
from rollgym.store import (
    DerivedFile,
    KeySet,
    RecordLookup,
    TaskLookup,
    inputs_path,
    journal_paths,
    read_standing,
    read_tasks,
    write_derived,
)

Holds = Callable[[int], bool]
Render = Callable[[Task, Attempt], Row]


def completed_attempts(directory: Path, holds: Holds) -> Iterator[Attempt]:
    """The standing records of completed rollouts. Raises StoreError."""
    for entry, stands in read_standing(journal_paths(directory)):
        attempt = entry.attempt
        if stands and isinstance(attempt.outcome, Completed) and holds(attempt.task):
            yield attempt


class _Key(msgspec.Struct):
    task: int = msgspec.field(name="_ng_task_index")
    repeat: int = msgspec.field(name="_ng_rollout_index")


_KEY = msgspec.json.Decoder(_Key)


class RolloutFiles:
    """The output and the failures of one run, or of the part of it that `holds` names."""

    name = "rollout files"

    def __init__(
        self, paths: RolloutPaths, directory: Path, holds: Holds, render: Render = output_row
    ) -> None:
        """`render` makes the row of a completed rollout. Raises InputsError, StorageError."""
        self._paths = paths
        self._render = render
        self._directory = directory
        self._holds = holds
        self._tasks = TaskLookup(inputs_path(directory))
        self._records = RecordLookup()
        self._output = DerivedFile(paths.output)
        self._failures = DerivedFile(paths.failures)

    def observe(self, events: Sequence[Event]) -> None:
        """Append what was recorded."""
        output, failures = [], []
        for event in events:
            if not isinstance(event, AttemptRecorded):
                continue
            match event.attempt.outcome:
                case Completed():
                    output.append(self._output_line(self._recorded(event)))
                case Failed():
                    failures.append(self._failure_line(self._recorded(event)))
        if output:
            self._output.append(b"".join(output))
        if failures:
            self._failures.append(b"".join(failures))

    def put_right(self) -> None:
        """Make the files what the journal says. Raises StoreError."""
        if not self._append_missing():
            self._output.replace(map(self._output_line, self._completed()))
        self._failures.replace(map(self._failure_line, self._failed()))
        self._output.sync()

    def write_materialized_inputs(self, seed: int | None) -> None:
        """One row for each rollout, as its agent gets it. Raises StoreError."""
        write_derived(self._paths.materialized_inputs, self._input_lines(seed))

    def close(self) -> None:
        for file in (self._tasks, self._records, self._output, self._failures):
            file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _append_missing(self) -> bool:
        """Whether the output now is what the journal says."""
        present, sound = self._present()
        if not sound:
            return False
        completed = 0
        for attempt in self._completed():
            completed += 1
            if present.add(attempt.task, attempt.repeat):
                self._output.append(self._output_line(attempt))
        return len(present) == completed

    def _present(self) -> tuple[KeySet, bool]:
        """The rollouts that the output has, and whether it has nothing else."""
        present, sound = KeySet(), True
        with self._paths.output.open("rb") as file:
            for line in file:
                try:
                    key = _KEY.decode(line)
                except msgspec.DecodeError:
                    return KeySet(), False
                sound = sound and present.add(key.task, key.repeat)
        return present, sound

    def _completed(self) -> Iterator[Attempt]:
        return completed_attempts(self._directory, self._holds)

    def _failed(self) -> Iterator[Attempt]:
        for entry, _ in read_standing(journal_paths(self._directory)):
            if isinstance(entry.attempt.outcome, Failed) and self._holds(entry.attempt.task):
                yield entry.attempt

    def _recorded(self, event: AttemptRecorded) -> Attempt:
        return self._records.record(event.journal, event.offset)

    def _output_line(self, attempt: Attempt) -> bytes:
        return self._render(self._tasks.task(attempt.task), attempt).raw + b"\n"

    def _failure_line(self, attempt: Attempt) -> bytes:
        return failure_row(self._tasks.task(attempt.task), attempt).raw + b"\n"

    def _input_lines(self, seed: int | None) -> Iterator[bytes]:
        for task in read_tasks(inputs_path(self._directory)):
            if self._holds(task.index):
                for repeat in range(task.repeats):
                    sampling = None if seed is None else seed + repeat
                    yield input_row(task, repeat, sampling).raw + b"\n"
