"""Rollouts read back from the file that a collection wrote.

`StoredRollouts` is the source of a run that verifies them again: the rollouts of one task become
one task again, with the input row that they had. The responses stay in the file; the worker reads
each when it needs it.
"""

from array import array
from collections.abc import Collection, Iterator
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO

import msgspec

from rollgym.records import Row, RowError, Task
from rollgym.records.task import Natural
from rollgym.rollouts import rows
from rollgym.rollouts.input_file import InputFile, agent_problem, lines_of, row_at
from rollgym.rollouts.paths import run_beside
from rollgym.rollouts.scored_rows import not_a_rollout
from rollgym.store import InputsError, TaskLookup, inputs_path
from rollgym.store.errors import storage_error, storage_errors


class _StoredRow(msgspec.Struct):
    task: Natural = msgspec.field(name="_ng_task_index")
    repeat: Natural = msgspec.field(name="_ng_rollout_index")


_STORED_ROW = msgspec.json.Decoder(_StoredRow)


class StoredRollouts:
    """The rollouts of a file. Iterating gives their tasks in the order of first appearance."""

    def __init__(
        self, path: Path, limit: int | None = None, agents: Collection[str] | None = None
    ) -> None:
        """Reads and checks the whole file. Raises InputsError with file and line, StorageError.

        `limit` takes only the first tasks. `agents` are the agents that exist.
        """
        self._file = InputFile(path)
        self._known = agents
        self._offsets: dict[int, array[int]] = {}
        self._digest = sha256()
        self.agents: set[str] = set()
        self.rollouts = 0
        with storage_errors(path, "reading the rollouts"), self._file.open() as file:
            self._read(file, limit)
        if not self._offsets:
            raise InputsError(f"{path} has no rollouts: there is nothing to verify")

    @property
    def tasks(self) -> int:
        return len(self._offsets)

    @property
    def sha256(self) -> str:
        """The digest of all responses: what is verified is part of the run's identity."""
        return self._digest.hexdigest()

    def __iter__(self) -> Iterator[Task]:
        """Raises InputsError, StorageError."""
        run = run_beside(self._file.path)
        try:
            if run is None:
                yield from self._tasks(None)
            else:
                with TaskLookup(inputs_path(run)) as inputs:
                    yield from self._tasks(inputs)
        except OSError as error:
            raise storage_error(error, self._file.path, "reading the rollouts") from error
        except RowError as error:
            raise self._file.changed() from error

    def response(self, task: int, repeat: int) -> msgspec.Raw:
        """The stored response of the task's k-th rollout. Raises InputsError, StorageError."""
        try:
            with self._file.open() as file:
                return row_at(file, self._offsets[task][repeat]).fields[rows.RESPONSE]
        except OSError as error:
            raise storage_error(error, self._file.path, "reading a stored rollout") from error
        except (KeyError, RowError) as error:
            raise self._file.changed() from error

    def _tasks(self, inputs: TaskLookup | None) -> Iterator[Task]:
        with self._file.open() as file:
            for index, offsets in self._offsets.items():
                found = [row_at(file, offset) for offset in offsets]
                stored = [*map(rows.StoredRollout.of, found)]
                # Without its run, only the fields that every collection writes are known.
                row = self._input_row(index, inputs) if inputs else rows.without_results(found[0])
                yield Task(index, row.with_fields({rows.STORED_ROLLOUTS: stored}), len(found))

    def _input_row(self, index: int, inputs: TaskLookup) -> Row:
        try:
            return inputs.task(index).row
        except KeyError as error:
            raise InputsError(
                f"{self._file.path} has rollouts of task {index}, which the run beside it does not "
                "have: the file is not of that run. Rename it to verify it alone."
            ) from error

    def _read(self, file: BinaryIO, limit: int | None) -> None:
        for number, offset, content in lines_of(file):
            try:
                self._add(content, offset, limit)
            except (msgspec.DecodeError, RowError) as error:
                raise not_a_rollout(self._file.path, number, error) from error

    def _add(self, content: bytes, offset: int, limit: int | None) -> None:
        row = rows.parse_row(content)
        task = _STORED_ROW.decode(content).task
        for name in (rows.PARAMS, rows.RESPONSE):
            if not bytes(row.fields.get(name, b"")).startswith(b"{"):
                raise RowError(f"it has no `{name}`")
        rows.StoredRollout.of(row)
        if task not in self._offsets:
            if len(self._offsets) == limit:
                return
            self._offsets[task] = array("Q")
        self._offsets[task].append(offset)
        self._digest.update(bytes(row.fields[rows.RESPONSE]) + b"\n")
        self._add_agent(rows.agent_name(row))
        self.rollouts += 1

    def _add_agent(self, name: str) -> None:
        if name in self.agents:
            return
        if not name:
            raise RowError(f"it has no {rows.AGENT}.name, so its environment is unknown")
        if self._known is not None and (problem := agent_problem(name, self._known)):
            raise RowError(problem)
        self.agents.add(name)
