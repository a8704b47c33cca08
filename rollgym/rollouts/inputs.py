"""From the user's JSONL file to the tasks of a run.

The file is read twice. The first reading checks every row and finds out which lines are the same
task: identical lines share a task, unless they say by `_ng_task_index` which one they are. It keeps
a few numbers for each task and no row. The second reading gives the tasks, in the order in which
they first appear, with everything the command adds to a row.
"""

from array import array
from collections.abc import Collection, Iterator, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from rollgym.records import Row, RowError, Task
from rollgym.rollouts.compact_map import CompactMap
from rollgym.rollouts.fields import (
    AGENT,
    FAILURE_CLASS,
    FAILURE_TERMINAL,
    NO_PERSIST,
    PARAMS,
    RESPONSE,
    REWARD,
    ROLLOUT_INDEX,
    SEED,
    STORED_ROLLOUTS,
    TASK_INDEX,
)
from rollgym.rollouts.input_checks import (
    agent_of,
    agent_problem,
    index_problems,
    params_problems,
    parsed_row,
)
from rollgym.rollouts.input_file import InputFile, Line, lines_of
from rollgym.rollouts.row_edits import merged, without
from rollgym.store import InputsError
from rollgym.store.errors import storage_error

DEFAULT_REPEATS = "_default"
SHOWN_BAD_ROWS = 20
_NO_INDEX = 2**64 - 1
_NO_INPUT = (RESPONSE, REWARD, FAILURE_CLASS, FAILURE_TERMINAL, NO_PERSIST, STORED_ROLLOUTS)
"""Only a verifier may say these. A row that comes with them would have it echo them as its own."""


class InputSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a command says about its inputs.

    `num_repeats` may be given by agent, with `_default` for the others. `agents` are the names that
    a row may ask for; None when nobody knows them. `seeded` says that each repeat is given a seed,
    so that those which rows come with do not count.
    """

    path: Path
    agent_name: str | None = None
    limit: int | None = None
    num_repeats: int | Mapping[str, int] = 1
    params: Mapping[str, Any] = {}
    agents: Collection[str] | None = None
    seeded: bool = False


class PreparedInputs:
    """Checked inputs: the tasks, as often as they are iterated."""

    def __init__(self, settings: InputSettings) -> None:
        """Reads and checks the whole file. Raises InputsError with every problem, StorageError."""
        self._settings = settings
        self._file = InputFile(settings.path)
        self._found = _Tasks()
        _Check(settings, self._file, self._found).run()
        self.agents = frozenset(self._found.agents)
        self.tasks = len(self._found.offsets)
        self.rollouts = sum(self._found.repeats)

    def __iter__(self) -> Iterator[Task]:
        """Raises InputsError when the file was changed meanwhile, StorageError."""
        found = self._found
        try:
            with self._file.open() as file:
                for place, index in enumerate(found.numbers()):
                    row = self._prepared(_row_at(file, found.offsets[place]), index)
                    yield Task(index, row, found.repeats[place])
        except OSError as error:
            raise storage_error(error, self._file.path, "reading the rows") from error
        except RowError as error:
            raise self._file.changed() from error

    def _prepared(self, row: Row, index: int) -> Row:
        settings = self._settings
        row = without(_content(row, seeded=settings.seeded), _NO_INPUT)
        changes: dict[str, Any] = {}
        if settings.params:
            params = merged(Row(bytes(row.fields[PARAMS])), settings.params)
            changes[PARAMS] = msgspec.Raw(params.raw)
        if agent_of(row) is None:
            changes[AGENT] = {"type": "responses_api_agents", "name": settings.agent_name}
        if TASK_INDEX not in row.fields:
            changes[TASK_INDEX] = index
        return row.with_fields(changes)


class _Tasks:
    """What the first reading keeps of each task: where its row stands, and how often it runs."""

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
        """The index of each: its own, or the next that no row claims."""
        free = 0
        for own in self._indexes:
            if own != _NO_INDEX:
                yield own
                continue
            while self.numbered.has(free):
                free += 1
            yield free
            free += 1


class _Check:
    """The first reading."""

    def __init__(self, settings: InputSettings, file: InputFile, found: _Tasks) -> None:
        self._settings = settings
        self._file = file
        self._found = found
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
        if not self._found.offsets:
            raise InputsError(f"{path} has no rows: there is nothing to collect")

    def _read(self, file: BinaryIO, again: BinaryIO) -> None:
        for rows, line in enumerate(lines_of(file)):
            if rows == self._settings.limit:
                return
            problems = list(self._take(line, again))
            self._bad_rows += bool(problems)
            if problems and self._bad_rows <= SHOWN_BAD_ROWS:
                where = f"{self._settings.path}:{line.number}"
                self._problems += [f"{where}: {problem}" for problem in problems]

    def _take(self, line: Line, again: BinaryIO) -> Iterator[str]:
        """Note a good row; the problems of a bad one."""
        try:
            row = parsed_row(line.content)
        except RowError as error:
            yield f"this is no row: {error}"
            return
        problems = [*params_problems(row), *self._agent_problems(row), *index_problems(row)]
        if problems:
            yield from problems
            return
        index = row.get(TASK_INDEX, int)
        place = self._place(_content(row, seeded=self._settings.seeded).raw, index, again)
        if isinstance(place, str):
            yield place
            return
        self._found.agents.add(self._agent(row))
        if place < len(self._found.offsets):
            self._found.repeats[place] += self._repeats(row)
        else:
            self._found.add(line.offset, self._repeats(row), index)

    def _place(self, content: bytes, index: int | None, again: BinaryIO) -> int | str:
        """Which task the row is, counting from 0, or what is wrong with its number."""
        fingerprint = int.from_bytes(blake2b(content, digest_size=8).digest(), "big")
        for place in self._same.candidates(fingerprint):
            if self._content_at(place, again, seeded=self._settings.seeded).raw == content:
                return place
        if index is not None:
            for place in self._found.numbered.candidates(index):
                return self._conflict(content, index, place, again)
        place = len(self._found.offsets)
        self._same.add(fingerprint, place)
        return place

    def _conflict(self, content: bytes, index: int, place: int, again: BinaryIO) -> str:
        """What to do about two rows of one index."""
        unseeded = _content(Row(content), seeded=True)
        if unseeded == self._content_at(place, again, seeded=True):
            return (
                f"another row has {TASK_INDEX} {index} already, with another {PARAMS}.{SEED}; give "
                f"+num_repeats_add_seed=true to have repeats seeded, or leave {TASK_INDEX} out"
            )
        return (
            f"another row has {TASK_INDEX} {index} already, and is not the same; leave the "
            "field out to have rows numbered"
        )

    def _content_at(self, place: int, again: BinaryIO, *, seeded: bool) -> Row:
        return _content(_row_at(again, self._found.offsets[place]), seeded=seeded)

    def _agent(self, row: Row) -> str:
        return agent_of(row) or self._settings.agent_name or ""

    def _agent_problems(self, row: Row) -> Iterator[str]:
        try:
            name = self._agent(row)
        except RowError as error:
            yield str(error)
            return
        known = self._settings.agents
        if not name:
            yield f"no agent: the row has no {AGENT}.name, and +agent_name is not given"
        elif known is not None and (problem := agent_problem(name, known)):
            yield problem

    def _repeats(self, row: Row) -> int:
        repeats = self._settings.num_repeats
        if isinstance(repeats, int):
            return repeats
        return repeats.get(self._agent(row), repeats.get(DEFAULT_REPEATS, 1))

    def _report(self) -> str:
        more = self._bad_rows - SHOWN_BAD_ROWS
        lines = [f"{self._bad_rows} bad row(s) in {self._settings.path}, nothing was started:"]
        lines += [f"  {problem}" for problem in self._problems]
        if more > 0:
            lines.append(f"  and {more} more bad row(s)")
        return "\n".join(lines)


def agent_name(row: Row) -> str:
    """The agent of a prepared row."""
    return agent_of(row) or ""


def _row_at(file: BinaryIO, offset: int) -> Row:
    file.seek(offset)
    return parsed_row(file.readline())


def _content(row: Row, *, seeded: bool) -> Row:
    """What tells a task from others: its row, less what tells its repeats apart."""
    row = without(row, (ROLLOUT_INDEX,))
    if seeded:
        params = Row(bytes(row.fields[PARAMS]))
        if SEED in params.fields:
            row = row.with_fields({PARAMS: msgspec.Raw(without(params, (SEED,)).raw)})
    return row
