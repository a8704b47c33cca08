"""The materialised inputs: every task of the run in one file, read lazily.

The file is written when the run is made and never changes. A shard takes every n-th task of it, so
the shards of one run are disjoint, together they are everything, and a group is never split.
"""

import contextlib
import fcntl
import filecmp
from collections.abc import Iterable, Iterator
from hashlib import sha256
from itertools import zip_longest
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

import msgspec

from rollgym.records import Row, RowError, Task
from rollgym.records.task import Natural
from rollgym.store.disk import Disk, sync_path
from rollgym.store.errors import InputsError, storage_error
from rollgym.store.identity import InputsIdentity
from rollgym.store.keyset import KeySet
from rollgym.store.shard import WHOLE, Shard

_DRAFT = ".inputs-"


class _Line(msgspec.Struct):
    task: Natural
    repeats: Natural
    row: msgspec.Raw


_DECODER = msgspec.json.Decoder(_Line)


class Materialised(msgspec.Struct, frozen=True):
    """What writing the inputs found out: their identity, and which of them are the shard's."""

    identity: InputsIdentity
    tasks: KeySet
    rollouts: int


class Inputs:
    """The tasks of a run (of one shard of it), as often as they are iterated."""

    def __init__(self, path: Path, shard: Shard, materialised: Materialised) -> None:
        self.path = path
        self.groups = len(materialised.tasks)
        self.expected = materialised.rollouts
        self._shard = shard
        self._tasks = materialised.tasks

    def __iter__(self) -> Iterator[Task]:
        """Raises InputsError with file and line."""
        for position, task in enumerate(read_tasks(self.path)):
            if self._shard.takes(position):
                yield task

    def holds(self, task: int) -> bool:
        """Whether the task of this index is among them."""
        return self._tasks.has(task, 0)


class InputsDraft:
    """Inputs written to a file of their own before it is known whether they are this run's.

    The file is locked while its process lives, so that what killed processes left behind can be
    told, and is removed.
    """

    def __init__(self, directory: Path, disk: Disk) -> None:
        """Raises StorageError."""
        self.path = directory / f"{_DRAFT}{uuid4().hex}.tmp"
        self._disk = disk
        try:
            _remove_stale(directory)
            self._file = _open_locked(self.path)
        except OSError as error:
            raise storage_error(error, self.path, "writing the inputs") from error

    def write(self, tasks: Iterable[Task], shard: Shard) -> Materialised:
        """Write every task and make it last. Raises InputsError, StorageError."""
        digest, seen = sha256(), KeySet()
        own = seen if shard == WHOLE else KeySet()
        rollouts = own_rollouts = 0
        try:
            for position, task in enumerate(tasks):
                if not seen.add(task.index, 0):
                    raise InputsError(
                        f"task index {task.index} stands a second time at task {position + 1} of "
                        "the inputs: every task needs an index of its own"
                    )
                line = _encode(task)
                digest.update(line)
                self._file.write(line)
                rollouts += task.repeats
                if shard.takes(position):
                    own.add(task.index, 0)
                    own_rollouts += task.repeats
            self._file.flush()
            self._disk.sync(self._file.fileno())
        except OSError as error:
            raise storage_error(error, self.path, "writing the inputs") from error
        identity = InputsIdentity(len(seen), rollouts, digest.hexdigest())
        return Materialised(identity, own, own_rollouts)

    def keep(self, path: Path) -> None:
        """Make it the run's inputs. Raises StorageError."""
        try:
            self._disk.replace(self.path, path)
            sync_path(self._disk, path.parent)
        except OSError as error:
            raise storage_error(error, path, "keeping the inputs") from error

    def moved_to(self, directory: Path) -> None:
        """Somebody renamed the directory it is in."""
        self.path = directory / self.path.name

    def close(self) -> None:
        """Remove it, unless it was kept."""
        self.path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # what a full disk did not take, it does not take now
            self._file.close()


def _open_locked(path: Path) -> BinaryIO:
    """Whoever removes what killed processes left may remove it before it is locked."""
    while True:
        file = path.open("wb")
        fcntl.flock(file, fcntl.LOCK_EX)
        if path.exists():
            return file
        file.close()


def _encode(task: Task) -> bytes:
    row = task.row.raw.replace(b"\n", b" ")
    return b'{"task":%d,"repeats":%d,"row":%b}\n' % (task.index, task.repeats, row)


def _remove_stale(directory: Path) -> None:
    for path in directory.glob(f"{_DRAFT}*.tmp"):
        with contextlib.suppress(FileNotFoundError, BlockingIOError), path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()


def decode_task(line: bytes) -> Task:
    """A line of a materialised file. Raises ValueError."""
    read = _DECODER.decode(line)
    return Task(read.task, Row(bytes(read.row)), read.repeats)


def read_tasks(path: Path) -> Iterator[Task]:
    """Every task of a materialised file. Raises InputsError with file and line, StorageError."""
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                try:
                    yield decode_task(line)
                except ValueError as error:
                    raise InputsError(f"{path}:{number}: this is no task ({error})") from error
    except OSError as error:
        raise storage_error(error, path, "reading the inputs") from error


def read_rows(path: Path) -> Iterator[Row]:
    """Every row of a JSONL file of the user's, lazily; blank lines are passed over.

    Raises InputsError with file and line, StorageError.
    """
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if line.isspace():
                    continue
                try:
                    yield Row.parse(line)
                except RowError as error:
                    raise InputsError(f"{path}:{number}: this is no row ({error})") from error
    except OSError as error:
        raise storage_error(error, path, "reading the rows") from error


def first_difference(one: Path, other: Path) -> int | None:
    """The first line, from 1, at which two files differ."""
    if filecmp.cmp(one, other, shallow=False):
        return None
    with one.open("rb") as left, other.open("rb") as right:
        pairs = enumerate(zip_longest(left, right), start=1)
        return next((number for number, (ours, theirs) in pairs if ours != theirs), None)
