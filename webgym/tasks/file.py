"""A JSONL file of web tasks, checked as a whole before anything starts.

The first pass checks every row and keeps its offset and the values that sampling needs, a few bytes
per task (`TaskTable`). Rows are read again when they are needed, and the file must be unchanged
then. A row without `task_id` gets the number of its line.

Tasks on the bundled sites have `{sites}` in place of the address of the sites. It stays in the row,
because the address may differ when the run is continued; the episode replaces it.
"""

import re
from array import array
from collections.abc import Iterable, Iterator
from hashlib import blake2b, sha256
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urlsplit

import msgspec

from rollgym.records import Row, RowError
from rollgym.records.decoding import decode_json
from rollgym.rollouts.input_file import CompactMap, InputFile, InputLine, lines_of
from rollgym.store import InputsError
from rollgym.store.errors import storage_error, storage_errors
from webgym.sites.tasks.task import SiteTask
from webgym.tasks.task import SITES, WebTask

_HARDEST = 2**32 - 1


class TaskTable:
    """Difficulty, domain and host of each task, by its position in the file, from 0."""

    def __init__(self) -> None:
        self._difficulties = array("I")
        self._domains = _TextColumn()
        self._hosts = _TextColumn()

    def add(self, task: WebTask) -> None:
        self._difficulties.append(min(task.difficulty, _HARDEST))
        self._domains.add(task.domain)
        self._hosts.add(task.host)

    def __len__(self) -> int:
        return len(self._difficulties)

    def difficulty(self, position: int) -> int:
        return self._difficulties[position]

    def domain(self, position: int) -> str:
        return self._domains.of(position)

    def host(self, position: int) -> str:
        return self._hosts.of(position)


class _TextColumn:
    """A column with few distinct texts."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._texts: list[str] = []
        self._column = array("I")

    def add(self, text: str) -> None:
        number = self._numbers.setdefault(text, len(self._texts))
        if number == len(self._texts):
            self._texts.append(text)
        self._column.append(number)

    def of(self, position: int) -> str:
        return self._texts[self._column[position]]


SHOWN_BAD_ROWS = 20
_HOST = re.compile(r"""[^\s"%<>\\^`{|}]+""")
"""The characters of a host name or address, in any language."""
_WEBGYM = Path(__file__).parents[1]
BUNDLED = {
    f"{place}/{name}.jsonl": _WEBGYM / place / "tasks" / f"{name}.jsonl"
    for place, names in {"sites": ("train", "test"), "miniwob": ("demo", "easy")}.items()
    for name in names
}
"""Task files of the package, by their names in a configuration."""


def find_task_file(name: str, data_path: Path | None = None) -> Path:
    """The file of this name: below `data_path`, else a bundled one. Raises InputsError."""
    path = Path(name)
    if path.is_absolute():
        return path
    if data_path is not None and (data_path / path).exists():
        return data_path / path
    bundled = BUNDLED.get(path.as_posix())
    if bundled is not None:
        return bundled
    below = f"below data_path={data_path}" if data_path else "because data_path is not set"
    raise InputsError(
        f"task file {name} was not found {below}; the bundled files are {', '.join(BUNDLED)}"
    )


class TaskFile:
    """A checked file. `sha256` covers its rows, without blank lines between them.

    `needs_sites` and `needs_judge` say whether a task is on the bundled sites, or has no check.
    `verifiers` are the names of the verifiers of users.
    """

    def __init__(self, path: Path) -> None:
        """Reads the whole file. Raises InputsError with every bad row, StorageError."""
        self.path = path
        self._file = InputFile(path)
        checked = _FirstPass(self._file)
        self._offsets, self._numbers = checked.offsets, checked.numbers
        self.table = checked.table
        self.needs_sites = checked.needs_sites
        self.needs_judge = checked.needs_judge
        self.verifiers = frozenset(checked.verifiers)
        self.sha256 = checked.digest.hexdigest()

    def __len__(self) -> int:
        return len(self._offsets)

    def rows(self, positions: Iterable[int]) -> Iterator[Row]:
        """The rows at these positions, in this order.

        Raises InputsError where the file has changed since it was checked, StorageError.
        """
        try:
            with self._file.open() as file:
                for each in positions:
                    yield _row_at(file, self._offsets[each], self._numbers[each])
        except OSError as error:
            raise storage_error(error, self.path, "reading the tasks") from error
        except RowError as error:
            raise self._file.changed() from error


class _FirstPass:
    """The first pass over the file, and what is kept of it."""

    def __init__(self, file: InputFile) -> None:
        self.offsets, self.numbers = array("Q"), array("Q")
        self.table = TaskTable()
        self.needs_sites = False
        self.needs_judge = False
        self.verifiers: set[str] = set()
        self.digest = sha256()
        self._path = file.path
        self._ids = CompactMap()
        self._bad_rows = 0
        self._problems: list[str] = []
        reading = storage_errors(file.path, "reading the tasks")
        with reading, file.open() as rows, file.open() as again:
            for line in lines_of(rows):
                self._add(line, again)
        if self._bad_rows:
            raise InputsError(self._report())
        if not self.offsets:
            raise InputsError(f"{file.path} is empty: it has no tasks")

    def _add(self, line: InputLine, again: BinaryIO) -> None:
        self.digest.update(line.content.strip() + b"\n")
        try:
            task = _task(line)
            self._claim_id(task.task_id, again)
        except RowError as error:
            self._bad_rows += 1
            if self._bad_rows <= SHOWN_BAD_ROWS:
                self._problems.append(f"  {self._path}:{line.number}: {error}")
            return
        self.needs_sites |= task.website.startswith(SITES)
        self.needs_judge |= task.verifier is None
        if task.verifier is not None and not task.is_checked_by_its_server:
            self.verifiers.add(task.verifier)
        self.offsets.append(line.offset)
        self.numbers.append(line.number)
        self.table.add(task)

    def _claim_id(self, task_id: str, again: BinaryIO) -> None:
        fingerprint = int.from_bytes(blake2b(task_id.encode(), digest_size=8).digest(), "big")
        for other_position in self._ids.candidates(fingerprint):
            number = self.numbers[other_position]
            other = _row_at(again, self.offsets[other_position], number)
            if str(other.get("task_id", object)) == task_id:
                raise RowError(f"field 'task_id': {task_id!r:.100} is also the id of line {number}")
        self._ids.add(fingerprint, len(self.offsets))

    def _report(self) -> str:
        more = self._bad_rows - SHOWN_BAD_ROWS
        lines = [f"{self._bad_rows} bad row(s) in {self._path}; nothing was started:"]
        lines += self._problems
        if more > 0:
            lines.append(f"  and {more} more bad row(s)")
        return "\n".join(lines)


def _task(line: InputLine) -> WebTask:
    """Raises RowError."""
    try:
        task = WebTask.of(_with_id(Row.parse(line.content), line.number), "")
        host, _ = task.host, urlsplit(task.website).port
    except RowError:
        raise
    except ValueError as error:  # an address that cannot be parsed
        raise RowError(f"field 'website': {error}") from error
    if not (_HOST.fullmatch(host) or task.website.startswith(SITES)):
        raise RowError(f"field 'website': {task.website!r:.100} has no valid host")
    if task.verifier == "sites":
        _require_site_task(task)
    return task


def _require_site_task(task: WebTask) -> None:
    """Raise RowError where the test sites could not check the task."""
    try:
        row = decode_json(task.row.raw, SiteTask)
    except msgspec.ValidationError as error:
        raise RowError(
            f"field 'verifier': 'sites' needs a task of the test sites: {error}"
        ) from error
    if not (row.truth or row.blocked):
        raise RowError("field 'truth': it has no check, so nothing could decide the reward")


def _row_at(file: BinaryIO, offset: int, number: int) -> Row:
    file.seek(offset)
    return _with_id(Row.parse(file.readline()), number)


def _with_id(row: Row, number: int) -> Row:
    """The row with its default id where it has none. Raises RowError."""
    if row.get("task_id", object) is not None:
        return row
    return row.with_fields({"task_id": str(number)})
