"""From the user's JSONL file to the tasks of a run.

The file is read twice. The first reading checks every row and groups the lines into tasks:
identical lines are one task, unless `_ng_task_index` says otherwise. It keeps a few numbers for
each task and no row. The second reading gives the tasks, in the order in which they first appear,
with everything that the command adds to a row.
"""

from array import array
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, overload

import msgspec

from rollgym.records import Row, RowError, Task
from rollgym.rollouts import rows
from rollgym.rollouts.input_file import (
    CompactMap,
    InputFile,
    InputLine,
    agent_problem,
    index_problems,
    lines_of,
    params_problems,
    row_at,
)
from rollgym.rollouts.prompt import PromptTemplate
from rollgym.store import InputsError
from rollgym.store.errors import storage_error

DEFAULT_REPEATS = "_default"
SHOWN_BAD_ROWS = 20
_NO_INDEX = 2**64 - 1
_NO_INPUT = (
    rows.RESPONSE,
    rows.REWARD,
    rows.FAILURE_CLASS,
    rows.FAILURE_TERMINAL,
    rows.NO_PERSIST,
    rows.STORED_ROLLOUTS,
    rows.OWN_OUTPUT,
    rows.OWN_METADATA,
)
"""Only verifiers and collections set these. A verifier would echo them as if they were its own."""


class InputSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a command that concern its inputs.

    `num_repeats` may be given by agent, with `_default` for the others. `agents` are the agents
    that exist; None where they are unknown. `seeded` says that each repeat gets a sampling seed, so
    that the seeds in input rows are ignored. `prompt` makes the input of every row.
    """

    path: Path
    agent_name: str | None = None
    limit: int | None = None
    num_repeats: int | Mapping[str, int] = 1
    params: Mapping[str, Any] = {}
    agents: Collection[str] | None = None
    seeded: bool = False
    prompt: PromptTemplate | None = None


class PreparedInputs(Sequence[Task]):
    """The checked inputs: a sequence of tasks, which are read when they are used."""

    def __init__(self, settings: InputSettings) -> None:
        """Reads and checks the whole file. Raises InputsError with every problem, StorageError."""
        self._settings = settings
        self._file = InputFile(settings.path)
        self._table = _TaskTable()
        _FirstReading(settings, self._file, self._table).run()
        self.agents = frozenset(self._table.agents)
        self.tasks = len(self._table.offsets)
        self.rollouts = sum(self._table.repeats)

    def __iter__(self) -> Iterator[Task]:
        """Raises InputsError when the file was changed meanwhile, StorageError."""
        table = self._table
        try:
            with self._file.open() as file:
                for place, index in enumerate(table.numbers()):
                    row = self._prepared(row_at(file, table.offsets[place]), index)
                    yield Task(index, row, table.repeats[place])
        except OSError as error:
            raise storage_error(error, self._file.path, "reading the rows") from error
        except RowError as error:
            raise self._file.changed() from error

    def __len__(self) -> int:
        return self.tasks

    @overload
    def __getitem__(self, place: int) -> Task: ...
    @overload
    def __getitem__(self, place: slice) -> list[Task]: ...
    def __getitem__(self, place: int | slice) -> Task | list[Task]:
        """Raises IndexError, InputsError when the file was changed meanwhile, StorageError."""
        if isinstance(place, slice):
            return [self[each] for each in range(*place.indices(len(self)))]
        table = self._table
        try:
            with self._file.open() as file:
                row = self._prepared(row_at(file, table.offsets[place]), self._indexes[place])
        except OSError as error:
            raise storage_error(error, self._file.path, "reading the rows") from error
        except RowError as error:
            raise self._file.changed() from error
        return Task(self._indexes[place], row, table.repeats[place])

    @cached_property
    def _indexes(self) -> "array[int]":
        return array("Q", self._table.numbers())

    def _prepared(self, row: Row, index: int) -> Row:
        settings = self._settings
        if settings.prompt is not None:
            row = settings.prompt.apply(row)
        row = rows.without_fields(_content(row, seeded=settings.seeded), _NO_INPUT)
        changes: dict[str, Any] = {}
        if settings.params:
            params = rows.merge_fields(Row(bytes(row.fields[rows.PARAMS])), settings.params)
            changes[rows.PARAMS] = msgspec.Raw(params.raw)
        if rows.requested_agent(row) is None:
            changes[rows.AGENT] = {"type": "responses_api_agents", "name": settings.agent_name}
        if rows.TASK_INDEX not in row.fields:
            changes[rows.TASK_INDEX] = index
        return row.with_fields(changes)


class _TaskTable:
    """What the first reading keeps of each task: the offset of its row and its repeats."""

    def __init__(self) -> None:
        self.offsets, self.repeats = array("Q"), array("Q")
        self.agents: set[str] = set()
        self.numbered = CompactMap()
        self._indexes = array("Q")

    def add(self, offset: int, repeats: int, index: int | None) -> None:
        if index is not None:
            self.numbered.add(index, len(self.offsets))
        self.offsets.append(offset)
        self.repeats.append(repeats)
        self._indexes.append(_NO_INDEX if index is None else index)

    def numbers(self) -> Iterator[int]:
        """The index of each task: its own, or the next one that no row has."""
        free, some_numbered = 0, len(self.numbered) > 0
        for own in self._indexes:
            if own != _NO_INDEX:
                yield own
                continue
            while some_numbered and self.numbered.has(free):
                free += 1
            yield free
            free += 1


class _FirstReading:
    """Checks every row, and fills the table of tasks."""

    def __init__(self, settings: InputSettings, file: InputFile, table: _TaskTable) -> None:
        self._settings = settings
        self._file = file
        self._table = table
        self._same = CompactMap()
        self._bad_rows = 0
        self._problems: list[str] = []

    def run(self) -> None:
        path = self._settings.path
        try:
            with self._file.open() as file, self._file.open() as again:
                self._read(file, again)
        except OSError as error:
            raise storage_error(error, path, "reading the rows") from error
        except RowError as error:
            raise self._file.changed() from error
        if self._bad_rows:
            raise InputsError(self._report())
        if not self._table.offsets:
            raise InputsError(f"{path} has no rows: there is nothing to collect")

    def _read(self, file: BinaryIO, again: BinaryIO) -> None:
        for count, line in enumerate(lines_of(file)):
            if count == self._settings.limit:
                return
            problems = self._add(line, again)
            self._bad_rows += bool(problems)
            if problems and self._bad_rows <= SHOWN_BAD_ROWS:
                where = f"{self._settings.path}:{line.number}"
                self._problems += [f"{where}: {problem}" for problem in problems]

    def _add(self, line: InputLine, again: BinaryIO) -> list[str]:
        """Add a good row to the table; return the problems of a bad one."""
        try:
            row = Row.parse(line.content)
        except RowError as error:
            return [f"this is not a row: {error}"]
        content = row
        try:
            if self._settings.prompt is not None:
                row = self._settings.prompt.apply(row)
        except RowError as error:
            return [str(error)]
        problems = params_problems(row, seeded=self._settings.seeded)
        agent = ""
        try:
            agent = rows.requested_agent(row) or self._settings.agent_name or ""
        except RowError as error:
            problems.append(str(error))
        else:
            problems += self._agent_problems(agent)
        problems += index_problems(row)
        if problems:
            return problems
        index = row.get(rows.TASK_INDEX, int)
        place = self._place(_content(content, seeded=self._settings.seeded).raw, index, again)
        if isinstance(place, str):
            return [place]
        self._table.agents.add(agent)
        if place < len(self._table.offsets):
            self._table.repeats[place] += self._repeats(agent)
        else:
            self._table.add(line.offset, self._repeats(agent), index)
        return []

    def _place(self, content: bytes, index: int | None, again: BinaryIO) -> int | str:
        """The place of the row's task in the table, or the problem with its index."""
        # Python's hash has another key in each process, so no file can be made whose rows collide.
        fingerprint = hash(content) % 2**64
        for place in self._same.candidates(fingerprint):
            if self._content_at(place, again, seeded=self._settings.seeded).raw == content:
                return place
        if index is not None:
            for place in self._table.numbered.candidates(index):
                return self._conflict(content, index, place, again)
        place = len(self._table.offsets)
        self._same.add(fingerprint, place)
        return place

    def _conflict(self, content: bytes, index: int, place: int, again: BinaryIO) -> str:
        """The problem of two different rows with one index."""
        earlier = f"an earlier row has the same {rows.TASK_INDEX} {index} and"
        unseeded = _content(Row(content), seeded=True)
        if unseeded == self._content_at(place, again, seeded=True):
            return (
                f"{earlier} another sampling seed; set num_repeats_add_seed to seed the "
                f"repeats, or leave {rows.TASK_INDEX} out"
            )
        if rows.is_rollout(row_at(again, self._table.offsets[place])):
            return (
                f"{earlier} other fields of its verifier; give the materialized inputs of that run"
            )
        return f"{earlier} other content; leave the field out to have the rows numbered"

    def _content_at(self, place: int, again: BinaryIO, *, seeded: bool) -> Row:
        return _content(row_at(again, self._table.offsets[place]), seeded=seeded)

    def _agent_problems(self, name: str) -> list[str]:
        known = self._settings.agents
        if not name:
            return [f"the row has no {rows.AGENT}.name, and the command names no agent"]
        problem = agent_problem(name, known) if known is not None else None
        return [problem] if problem else []

    def _repeats(self, agent: str) -> int:
        repeats = self._settings.num_repeats
        if isinstance(repeats, int):
            return repeats
        return repeats.get(agent, repeats.get(DEFAULT_REPEATS, 1))

    def _report(self) -> str:
        more = self._bad_rows - SHOWN_BAD_ROWS
        lines = [f"{self._bad_rows} bad row(s) in {self._settings.path}; nothing was started:"]
        lines += [f"  {problem}" for problem in self._problems]
        if more > 0:
            lines.append(f"  and {more} more bad row(s)")
        return "\n".join(lines)


def _content(row: Row, *, seeded: bool) -> Row:
    """The part of a row that distinguishes tasks, without the fields that distinguish repeats."""
    row = rows.without_results(row) if rows.is_rollout(row) else row
    row = rows.without_fields(row, (rows.ROLLOUT_INDEX,))
    return rows.without_seed(row) if seeded else row
