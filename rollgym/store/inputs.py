"""The materialised inputs: every task of the run in one file, read lazily.

The file is written when the run is made. It changes only when the run grows: tasks are added at its
end, and tasks get more repeats, when the run is opened (see `opening`) or while it is collected
(see `growth`). A shard holds every n-th task of it, so the shards of one run are
disjoint and complete, the repeats of a task are in one shard, and a task stays in its shard when
the run grows.
"""

import contextlib
import fcntl
import filecmp
import hashlib
from array import array
from collections.abc import Iterable, Iterator
from enum import Enum
from itertools import zip_longest
from pathlib import Path
from typing import BinaryIO, NamedTuple
from uuid import uuid4

import msgspec

from rollgym.records import Row, RowError, Task
from rollgym.records.decoding import JsonDecoder
from rollgym.records.task import Natural
from rollgym.store.disk import BUFFER, Disk, sync_path
from rollgym.store.errors import InputsError, storage_errors
from rollgym.store.layout import WHOLE, Shard
from rollgym.store.manifest import InputsIdentity
from rollgym.store.progress import KeySet

_DRAFT = ".inputs-"


class _TaskLine(msgspec.Struct):
    task: Natural
    repeats: Natural
    row: msgspec.Raw


_DECODER = JsonDecoder(_TaskLine)


class Materialised(NamedTuple):
    """The identity of the written inputs, and the tasks and rollouts of this shard.

    `digest` is the SHA-256 of the inputs, which continues when the run grows.
    """

    identity: InputsIdentity
    digest: "hashlib._Hash"
    tasks: KeySet
    rollouts: int


class Inputs:
    """The tasks of a run or of one shard; they can be iterated repeatedly."""

    def __init__(self, path: Path, shard: Shard, materialised: Materialised) -> None:
        self.path = path
        self.groups = len(materialised.tasks)
        self.expected = materialised.rollouts
        self._shard = shard
        self._tasks = materialised.tasks

    def __iter__(self) -> Iterator[Task]:
        """Raises InputsError with file and line."""
        for position, task in enumerate(read_tasks(self.path)):
            if self._shard.holds(position):
                yield task

    def holds(self, task: int) -> bool:
        """Whether a task of this index is part of the shard."""
        return self._tasks.has(task, 0)

    def add(self, task: Task) -> None:
        """Count a task that the run was given while it is collected."""
        self._tasks.add(task.index, 0)
        self.groups += 1
        self.expected += task.repeats


class InputsDraft:
    """A temporary file of inputs, written before the run's identity has been compared.

    The file is locked while its process lives, so drafts of killed processes are recognised and
    removed.
    """

    def __init__(self, directory: Path, disk: Disk) -> None:
        """Raises StorageError."""
        self.path = directory / f"{_DRAFT}{uuid4().hex}.tmp"
        self._disk = disk
        with storage_errors(self.path, "writing the inputs"):
            _remove_stale(directory)
            self._file = _open_locked(self.path)

    def write(self, tasks: Iterable[Task], shard: Shard) -> Materialised:
        """Write and sync every task. Raises InputsError, StorageError."""
        digest, seen = hashlib.sha256(), KeySet()
        own = seen if shard == WHOLE else KeySet()
        rollouts = own_rollouts = 0
        with storage_errors(self.path, "writing the inputs"):
            for position, task in enumerate(tasks):
                if not seen.add(task.index, 0):
                    raise InputsError(
                        f"task index {task.index} occurs a second time at task {position + 1} of "
                        "the inputs: every task needs a unique index"
                    )
                line = encode_task(task)
                digest.update(line)
                self._file.write(line)
                rollouts += task.repeats
                if shard.holds(position):
                    own.add(task.index, 0)
                    own_rollouts += task.repeats
            self._file.flush()
            self._disk.sync(self._file.fileno())
        identity = InputsIdentity(len(seen), rollouts, digest.hexdigest())
        return Materialised(identity, digest, own, own_rollouts)

    def keep(self, path: Path) -> None:
        """Rename the draft to the run's inputs. Raises StorageError."""
        with storage_errors(path, "keeping the inputs"):
            self._disk.replace(self.path, path)
            sync_path(self._disk, path.parent)

    def close(self) -> None:
        """Remove the draft, unless it was kept."""
        self.path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # the buffered rest cannot be written to a full disk
            self._file.close()


def _open_locked(path: Path) -> BinaryIO:
    """Open and lock a new file; another process may remove it before it is locked."""
    while True:
        file = path.open("wb", BUFFER)
        fcntl.flock(file, fcntl.LOCK_EX)
        if path.exists():
            return file
        file.close()


def encode_task(task: Task) -> bytes:
    row = task.row.raw.replace(b"\n", b" ")
    return b'{"task":%d,"repeats":%d,"row":%b}\n' % (task.index, task.repeats, row)


def _remove_stale(directory: Path) -> None:
    for path in directory.glob(f"{_DRAFT}*.tmp"):
        with contextlib.suppress(FileNotFoundError, BlockingIOError), path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()


def decode_task(line: bytes) -> Task:
    """Decode a line of the materialised inputs. Raises ValueError."""
    read = _DECODER.decode(line)
    return Task(read.task, Row(bytes(read.row)), read.repeats)


def task_index(line: bytes) -> int:
    """The index of the task in a line of the materialised inputs. Raises ValueError."""
    return _DECODER.decode(line).task


def read_tasks(path: Path) -> Iterator[Task]:
    """Read every task of the inputs. Raises InputsError with file and line, StorageError."""
    with storage_errors(path, "reading the inputs"), path.open("rb", BUFFER) as file:
        for number, line in enumerate(file, start=1):
            try:
                yield decode_task(line)
            except ValueError as error:
                raise InputsError(
                    f"{path}:{number}: this line is not a valid task ({error})"
                ) from error


def read_rows(path: Path) -> Iterator[Row]:
    """Read every row of a user's JSONL file lazily, without blank lines.

    Raises InputsError with file and line, StorageError.
    """
    with storage_errors(path, "reading the rows"), path.open("rb", BUFFER) as file:
        for number, line in enumerate(file, start=1):
            if line.isspace():
                continue
            try:
                yield Row.parse(line)
            except RowError as error:
                raise InputsError(
                    f"{path}:{number}: this line is not a valid row ({error})"
                ) from error


class Change(Enum):
    """How given inputs differ from those of a run."""

    SAME = "same"
    GROWN = "grown"
    """Tasks were added at the end, or tasks have more repeats."""
    SHRUNK = "shrunk"
    """Tasks at the end are missing, or tasks have fewer repeats."""
    DIFFERENT = "different"


class InputsChange(NamedTuple):
    """A change, the first line, from 1, where the files differ, and whether repeats were added."""

    change: Change
    line: int = 0
    repeats: bool = False


def compare_inputs(stored: Path, given: Path) -> InputsChange:
    """How the inputs in one file differ from those of a run. Raises OSError."""
    if filecmp.cmp(stored, given, shallow=False):
        return InputsChange(Change.SAME)
    first, shrunk, repeats = 0, False, False
    with stored.open("rb") as ours, given.open("rb") as theirs:
        for number, (old, new) in enumerate(zip_longest(ours, theirs), start=1):
            if old == new:
                continue
            first = first or number
            change = _line_change(old, new)
            if change is Change.DIFFERENT:
                return InputsChange(change, number)
            shrunk = shrunk or change is Change.SHRUNK
            repeats = repeats or (old is not None and old.endswith(b"\n"))
    return InputsChange(Change.SHRUNK if shrunk else Change.GROWN, first, repeats)


def _line_change(old: bytes | None, new: bytes | None) -> Change:
    if old is None or new is None:
        return Change.GROWN if old is None else Change.SHRUNK
    if not old.endswith(b"\n") and new.startswith(old):
        return Change.GROWN  # the process died while it appended to the file
    try:
        one, other = decode_task(old), decode_task(new)
    except ValueError:
        return Change.DIFFERENT
    if (one.index, one.row.raw) != (other.index, other.row.raw):
        return Change.DIFFERENT
    return Change.GROWN if other.repeats > one.repeats else Change.SHRUNK


class TaskRepeats:
    """The present number of repeats of each task, in 8 bytes of memory each.

    Indexes that are not simply counted from 0 take more memory.
    """

    def __init__(self, path: Path) -> None:
        """Read all tasks. Raises InputsError, StorageError."""
        self._repeats, indexes = array("Q"), array("Q")
        for task in read_tasks(path):
            self._repeats.append(task.repeats)
            indexes.append(task.index)
        self._positions: dict[int, int] | None = None
        if any(index != position for position, index in enumerate(indexes)):
            self._positions = {index: position for position, index in enumerate(indexes)}

    def of(self, task: int) -> int | None:
        """None for an unknown task."""
        position = task if self._positions is None else self._positions.get(task, -1)
        return self._repeats[position] if 0 <= position < len(self._repeats) else None
