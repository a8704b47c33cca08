"""Rollouts read back from the files that a collection wrote.

`StoredRollouts` is the source of a run that verifies them again: the rollouts of one task become
one task again, with the input row that they had. The responses stay in the files; the worker reads
each when it needs it.

*Failed rollouts* whose response is finished and only lacks a verdict are rollouts to verify like
the others. They are in the file of failures beside the rollouts, without their input rows, so the
run that has these must be beside them too. Where a file of failures itself is given, only they are
verified. A failure counts if it is the last word on its rollout.
"""

from array import array
from collections.abc import Collection, Iterator
from contextlib import ExitStack
from hashlib import sha256
from pathlib import Path

import msgspec

from rollgym.records import Row, RowError, Task
from rollgym.records.decoding import JsonDecoder
from rollgym.records.task import Natural
from rollgym.rollouts import rows
from rollgym.rollouts.input_file import InputFile, InputLine, agent_problem, lines_of, row_at
from rollgym.rollouts.paths import rollouts_and_failures, run_beside
from rollgym.rollouts.scored_rows import not_a_rollout
from rollgym.store import InputsError, TaskLookup, inputs_path, read_manifest
from rollgym.store.errors import storage_error, storage_errors


class _StoredRow(msgspec.Struct):
    task: Natural = msgspec.field(name="_ng_task_index")
    repeat: Natural = msgspec.field(name="_ng_rollout_index")


class _FailedRow(_StoredRow, kw_only=True):
    attempt: int
    final: bool
    unverified: bool = False
    response: msgspec.Raw = msgspec.Raw(b"")


_STORED_ROW = JsonDecoder(_StoredRow)
_FAILED_ROW = JsonDecoder(_FailedRow)


class StoredRollouts:
    """The rollouts of a file. Iterating gives their tasks in the order of first appearance."""

    def __init__(
        self, path: Path, limit: int | None = None, agents: Collection[str] | None = None
    ) -> None:
        """Reads and checks the whole file. Raises InputsError with file and line, StorageError.

        `limit` takes only the first tasks. `agents` are the agents that exist.
        """
        self._path = path
        self._limit = limit
        self._known = agents
        self._files = [InputFile(path)]
        self._places: dict[int, array[int]] = {}
        """Of each rollout of a task: the offset of its row, and in the last bit its file."""
        self._digest = sha256()
        self._run = run_beside(path)
        self.agents: set[str] = set()
        self.rollouts = 0
        self.unverified = 0
        """How many of the rollouts failed for want of a verdict."""
        output, failures = rollouts_and_failures(path)
        if self._run is None and path == failures:
            self._run = run_beside(output)
            self._read_failures(0, self._unverified(0, _keys(output)))
            self._require_run()
        else:
            self._read_rollouts()
            if self._run is not None and failures.is_file():
                self._files.append(InputFile(failures))
                self._read_failures(1, self._unverified(1, _keys(path)))
        if not self._places:
            raise InputsError(f"{path} has no rollouts: there is nothing to verify")

    @property
    def tasks(self) -> int:
        return len(self._places)

    @property
    def sha256(self) -> str:
        """The digest of all responses: what is verified is part of the run's identity."""
        return self._digest.hexdigest()

    def __iter__(self) -> Iterator[Task]:
        """Raises InputsError, StorageError."""
        try:
            if self._run is None:
                yield from self._tasks(None, None)
            else:
                manifest = read_manifest(self._run)
                seeds = rows.RepeatSeeds.of(manifest) if manifest else None
                with TaskLookup(inputs_path(self._run)) as inputs:
                    yield from self._tasks(inputs, seeds)
        except OSError as error:
            raise storage_error(error, self._path, "reading the rollouts") from error
        except RowError as error:
            raise self._files[0].changed() from error

    def response(self, task: int, repeat: int) -> tuple[msgspec.Raw, dict[str, msgspec.Raw]]:
        """The stored response of the task's k-th rollout, and the fields of `KEPT` that it has.

        Raises InputsError, StorageError.
        """
        offset, which = divmod(self._places[task][repeat], 2)
        file = self._files[which]
        try:
            with file.open() as opened:
                fields = row_at(opened, offset).fields
                kept = {name: fields[name] for name in rows.KEPT if name in fields}
                return fields[rows.RESPONSE], kept
        except OSError as error:
            raise storage_error(error, file.path, "reading a stored rollout") from error
        except (KeyError, RowError) as error:
            raise file.changed() from error

    def _tasks(self, inputs: TaskLookup | None, seeds: rows.RepeatSeeds | None) -> Iterator[Task]:
        with ExitStack() as stack:
            files = [stack.enter_context(file.open()) for file in self._files]
            for index, places in self._places.items():
                found = [row_at(files[place % 2], place // 2) for place in places]
                # Without its run, only the fields that every collection writes are known.
                row = self._input_row(index, inputs) if inputs else rows.without_results(found[0])
                stored = [
                    rows.StoredRollout.of(each)
                    if rows.PARAMS in each.fields
                    else rows.StoredRollout.of_failure(each, row, seeds)
                    for each in found
                ]
                yield Task(index, row.with_fields({rows.STORED_ROLLOUTS: stored}), len(found))

    def _input_row(self, index: int, inputs: TaskLookup) -> Row:
        try:
            return inputs.task(index).row
        except KeyError as error:
            raise InputsError(
                f"{self._path} has rollouts of task {index}, which the run beside it does not "
                "have: the file is not of that run. Rename it to verify it alone."
            ) from error

    def _require_run(self) -> None:
        if self._places and self._run is None:
            raise InputsError(
                f"{self._path} has failed rollouts without their input rows, and the run directory "
                "that has these is not beside it: verify the file where its collection wrote it"
            )

    # Reading the files.

    def _read_rollouts(self) -> None:
        for line in _lines(self._files[0]):
            try:
                self._add_rollout(line)
            except (msgspec.DecodeError, RowError) as error:
                raise not_a_rollout(self._path, line.number, error) from error

    def _add_rollout(self, line: InputLine) -> None:
        row = Row.parse(line.content)
        task = _STORED_ROW.decode(line.content).task
        for name in (rows.PARAMS, rows.RESPONSE):
            if not bytes(row.fields.get(name, b"")).startswith(b"{"):
                raise RowError(f"it has no `{name}`")
        rows.StoredRollout.of(row)
        self._add(row, task, 2 * line.offset)

    def _add(self, row: Row, task: int, place: int) -> bool:
        if task not in self._places:
            if len(self._places) == self._limit:
                return False
            self._places[task] = array("Q")
        self._places[task].append(place)
        self._digest.update(bytes(row.fields[rows.RESPONSE]) + b"\n")
        self._add_agent(rows.agent_name(row))
        self.rollouts += 1
        return True

    def _unverified(self, which: int, completed: Iterator[tuple[int, int]]) -> dict[int, int]:
        """The lines of failures to verify, by their offset: the numbers of their tasks."""
        last: dict[tuple[int, int], tuple[int, int, bool]] = {}
        for line in _lines(self._files[which]):
            try:
                row = _FAILED_ROW.decode(line.content)
            except msgspec.DecodeError as error:
                raise not_a_rollout(self._files[which].path, line.number, error) from error
            key, finished = (
                (row.task, row.repeat),
                row.unverified and bytes(row.response)[:1] == b"{",
            )
            if row.final and row.attempt >= last.get(key, (0, 0, False))[0]:
                last[key] = (row.attempt, line.offset, finished)
        found = {key: offset for key, (_, offset, finished) in last.items() if finished}
        for key in completed if found else ():
            found.pop(key, None)
        return {offset: task for (task, _), offset in found.items()}

    def _read_failures(self, which: int, unverified: dict[int, int]) -> None:
        file = self._files[which]
        with storage_errors(file.path, "reading the failures"), file.open() as opened:
            for offset, task in sorted(unverified.items()):
                try:
                    row = row_at(opened, offset)
                    self.unverified += self._add(row, task, 2 * offset + which)
                except RowError as error:
                    raise InputsError(f"{file.path}: a failed rollout: {error}") from error

    def _add_agent(self, name: str) -> None:
        if name in self.agents:
            return
        if not name:
            raise RowError(f"it has no {rows.AGENT}.name, so its environment is unknown")
        if self._known is not None and (problem := agent_problem(name, self._known)):
            raise RowError(problem)
        self.agents.add(name)


def _lines(file: InputFile) -> Iterator[InputLine]:
    with storage_errors(file.path, "reading the rollouts"), file.open() as opened:
        yield from lines_of(opened)


def _keys(path: Path) -> Iterator[tuple[int, int]]:
    """The tasks and repeats of the rollouts in a file; none where there is no file."""
    if path.is_file():
        for line in _lines(InputFile(path)):
            try:
                row = _STORED_ROW.decode(line.content)
            except msgspec.DecodeError as error:
                raise not_a_rollout(path, line.number, error) from error
            yield row.task, row.repeat
