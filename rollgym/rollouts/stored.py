"""Rollouts that are there already, as tasks to be verified again.

All stored rollouts of a task become one task again. Its row is the input row, with the responses in
a field of their own; the k-th repeat of the new run is the k-th stored rollout.
"""

from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from rollgym.records import Attempt, Row, RowError, Task
from rollgym.rollouts.fields import METADATA, OUTPUT, RESPONSE, REWARD, ROLLOUT_INDEX, SUCCESS
from rollgym.rollouts.inputs import agent_name
from rollgym.rollouts.output_row import output_row
from rollgym.rollouts.paths import RolloutPaths
from rollgym.store import InputsError, TaskLookup, inputs_path
from rollgym.store.errors import storage_error

STORED = "_rollgym_stored_rollouts"
_WRITTEN = frozenset((OUTPUT, RESPONSE, REWARD, SUCCESS, METADATA, ROLLOUT_INDEX))


class _Keys(msgspec.Struct):
    task: int = msgspec.field(name="_ng_task_index")
    repeat: int = msgspec.field(name="_ng_rollout_index")


class StoredRollout(msgspec.Struct, frozen=True):
    """What is kept of a rollout: which repeat it was, and what the agent answered."""

    repeat: int
    response: msgspec.Raw


_KEYS = msgspec.json.Decoder(_Keys)
_STORED = msgspec.json.Decoder(list[StoredRollout])


class StoredTasks:
    """The tasks of a file of rollouts. Iterating gives them in the order of first appearance."""

    def __init__(self, path: Path, limit: int | None = None) -> None:
        """Reads and checks the whole file. Raises InputsError with file and line, StorageError.

        `limit` takes only the first so many tasks.
        """
        self._path = path
        self._offsets: dict[int, array[int]] = {}
        self.agents: set[str] = set()
        self.rollouts = 0
        try:
            with path.open("rb") as file:
                self._read(file, limit)
        except OSError as error:
            raise storage_error(error, path, "reading the rollouts") from error
        if not self._offsets:
            raise InputsError(f"{path} has no rollouts: there is nothing to verify")

    @property
    def tasks(self) -> int:
        return len(self._offsets)

    def __iter__(self) -> Iterator[Task]:
        run = RolloutPaths.of(self._path).run
        inputs = TaskLookup(inputs_path(run)) if inputs_path(run).exists() else None
        with self._path.open("rb") as file:
            for index, offsets in self._offsets.items():
                rows = [_row_at(file, offset) for offset in offsets]
                base = inputs.task(index).row if inputs else _input_part(rows[0])
                stored = [StoredRollout(_repeat(row), row.fields[RESPONSE]) for row in rows]
                yield Task(index, base.with_fields({STORED: stored}), len(rows))
        if inputs:
            inputs.close()

    def _read(self, file: BinaryIO, limit: int | None) -> None:
        offset = 0
        for number, line in enumerate(file, start=1):
            if not line.isspace():
                try:
                    self._note(line, offset, limit)
                except (msgspec.DecodeError, RowError) as error:
                    raise InputsError(
                        f"{self._path}:{number}: this is no row of a rollout ({error})"
                    ) from error
            offset += len(line)

    def _note(self, line: bytes, offset: int, limit: int | None) -> None:
        keys, row = _KEYS.decode(line), Row.parse(line)
        if RESPONSE not in row.fields:
            raise RowError(f"it has no `{RESPONSE}`")
        if keys.task not in self._offsets:
            if len(self._offsets) == limit:
                return
            self._offsets[keys.task] = array("Q")
        self._offsets[keys.task].append(offset)
        self.agents.add(agent_name(row))
        self.rollouts += 1


def stored_rollout(task: Task, repeat: int) -> tuple[Row, StoredRollout]:
    """The input row of a task made here, and one of its stored rollouts."""
    stored = _STORED.decode(task.row.fields[STORED])[repeat]
    fields = {name: raw for name, raw in task.row.fields.items() if name != STORED}
    return Row.of({**fields, ROLLOUT_INDEX: stored.repeat}), stored


def reverified_row(task: Task, attempt: Attempt) -> Row:
    """The output row of a rollout that was verified again, numbered as it was."""
    row, stored = stored_rollout(task, attempt.repeat)
    fresh = output_row(Task(task.index, row, task.repeats), attempt)
    return fresh.with_fields({ROLLOUT_INDEX: stored.repeat})


def _row_at(file: BinaryIO, offset: int) -> Row:
    file.seek(offset)
    return Row(file.readline().strip())


def _repeat(row: Row) -> int:
    return row.get(ROLLOUT_INDEX, int, 0)


def _input_part(row: Row) -> Row:
    """A rollout's row without what a collection writes; the verifier's fields cannot be told."""
    fields: dict[str, Any] = {name: raw for name, raw in row.fields.items() if name not in _WRITTEN}
    return Row.of(fields)
