"""Rollouts that are there already, as tasks to be verified again.

All stored rollouts of a task become one task again, with the input row that they had.
"""

from array import array
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

from rollgym.records import Row, RowError, Task
from rollgym.records.task import Natural
from rollgym.rollouts.bundle import StoredRollout, bundled
from rollgym.rollouts.fields import (
    AGENT,
    METADATA,
    OUTPUT,
    PARAMS,
    RESPONSE,
    REWARD,
    ROLLOUT_INDEX,
    SUCCESS,
)
from rollgym.rollouts.input_checks import agent_problem, parsed_row
from rollgym.rollouts.input_file import InputFile, lines_of
from rollgym.rollouts.inputs import agent_name
from rollgym.rollouts.paths import run_beside
from rollgym.rollouts.row_edits import without
from rollgym.store import InputsError, TaskLookup, inputs_path
from rollgym.store.errors import storage_error

_WRITTEN = frozenset((OUTPUT, RESPONSE, REWARD, SUCCESS, METADATA, ROLLOUT_INDEX))


class _Keys(msgspec.Struct):
    task: Natural = msgspec.field(name="_ng_task_index")
    repeat: Natural = msgspec.field(name="_ng_rollout_index")


_KEYS = msgspec.json.Decoder(_Keys)


class StoredTasks:
    """The tasks of a file of rollouts. Iterating gives them in the order of first appearance."""

    def __init__(
        self, path: Path, limit: int | None = None, agents: Collection[str] | None = None
    ) -> None:
        """Reads and checks the whole file. Raises InputsError with file and line, StorageError.

        `limit` takes only the first so many tasks. `agents` are those that rollouts may be of.
        """
        self._file = InputFile(path)
        self._known = agents
        self._offsets: dict[int, array[int]] = {}
        self.agents: set[str] = set()
        self.rollouts = 0
        try:
            with self._file.open() as file:
                self._read(file, limit)
        except OSError as error:
            raise storage_error(error, path, "reading the rollouts") from error
        if not self._offsets:
            raise InputsError(f"{path} has no rollouts: there is nothing to verify")

    @property
    def tasks(self) -> int:
        return len(self._offsets)

    def __iter__(self) -> Iterator[Task]:
        """Raises InputsError, StorageError."""
        run = run_beside(self._file.path)
        try:
            if run is None:
                yield from self._bundles(None)
            else:
                with TaskLookup(inputs_path(run)) as inputs:
                    yield from self._bundles(inputs)
        except OSError as error:
            raise storage_error(error, self._file.path, "reading the rollouts") from error
        except RowError as error:
            raise self._file.changed() from error

    def _bundles(self, inputs: TaskLookup | None) -> Iterator[Task]:
        with self._file.open() as file:
            for index, offsets in self._offsets.items():
                rows = [_row_at(file, offset) for offset in offsets]
                base = self._input_row(index, inputs) if inputs else without(rows[0], _WRITTEN)
                yield Task(index, bundled(base, [*map(StoredRollout.of, rows)]), len(rows))

    def _input_row(self, index: int, inputs: TaskLookup) -> Row:
        """Without the run only what a collection writes could be taken off, not the verifier's."""
        try:
            return inputs.task(index).row
        except KeyError as error:
            raise InputsError(
                f"{self._file.path} has rollouts of task {index}, which the run beside it does not "
                "know: it is not the file of that run. Give it another name to verify it alone."
            ) from error

    def _read(self, file: BinaryIO, limit: int | None) -> None:
        for number, offset, content in lines_of(file):
            try:
                self._note(content, offset, limit)
            except (msgspec.DecodeError, RowError) as error:
                raise InputsError(
                    f"{self._file.path}:{number}: this is no row of a rollout: {error}"
                ) from error

    def _note(self, content: bytes, offset: int, limit: int | None) -> None:
        row = parsed_row(content)
        keys = _KEYS.decode(content)
        for name in (PARAMS, RESPONSE):
            if not bytes(row.fields.get(name, b"")).startswith(b"{"):
                raise RowError(f"it has no `{name}`")
        StoredRollout.of(row)
        if keys.task not in self._offsets:
            if len(self._offsets) == limit:
                return
            self._offsets[keys.task] = array("Q")
        self._offsets[keys.task].append(offset)
        self._note_agent(agent_name(row))
        self.rollouts += 1

    def _note_agent(self, name: str) -> None:
        if name in self.agents:
            return
        if not name:
            raise RowError(f"it has no {AGENT}.name, so its environment is not known")
        if self._known is not None and (problem := agent_problem(name, self._known)):
            raise RowError(problem)
        self.agents.add(name)


def _row_at(file: BinaryIO, offset: int) -> Row:
    file.seek(offset)
    return parsed_row(file.readline())
