"""The materialised inputs: every task of the run in one file, read lazily.

The file is written when the run is made and never changes. A shard takes every n-th task of it, so
the shards of one run are disjoint, together they are everything, and a group is never split.
"""

import contextlib
import re
import time
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from uuid import uuid4

import msgspec

from rollgym.records import Row, Task
from rollgym.records.task import Natural
from rollgym.store.disk import Disk
from rollgym.store.errors import InputsError, storage_error
from rollgym.store.identity import InputsIdentity
from rollgym.store.keyset import KeySet

INPUTS = "inputs.jsonl"


class Shard(msgspec.Struct, frozen=True):
    """The `index`-th of `count` parts of a run, from 0."""

    index: int = 0
    count: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.index < self.count:
            raise ValueError(f"shard {self.index}/{self.count}: counts from 0/n to n-1/n")

    @classmethod
    def parse(cls, text: str) -> "Shard":
        """From the form `i/n`. Raises ValueError."""
        match = re.fullmatch(r"(\d+)/(\d+)", text)
        if not match:
            raise ValueError(f"shard {text!r}: give it as i/n, such as 0/4")
        return cls(int(match[1]), int(match[2]))

    def takes(self, position: int) -> bool:
        return position % self.count == self.index


WHOLE = Shard()


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


def materialise(tasks: Iterable[Task], path: Path, shard: Shard, disk: Disk) -> Materialised:
    """Write the inputs and make them last. Raises InputsError, StorageError."""
    digest, seen, own = sha256(), KeySet(), KeySet()
    rollouts = own_rollouts = 0
    try:
        with path.open("wb") as file:
            for position, task in enumerate(tasks):
                if not seen.add(task.index, 0):
                    raise InputsError(
                        f"task index {task.index} stands a second time at task {position + 1} of "
                        "the inputs: every task needs an index of its own"
                    )
                line = b'{"task":%d,"repeats":%d,"row":%b}\n' % (
                    task.index,
                    task.repeats,
                    task.row.raw.replace(b"\n", b" "),
                )
                digest.update(line)
                file.write(line)
                rollouts += task.repeats
                if shard.takes(position):
                    own.add(task.index, 0)
                    own_rollouts += task.repeats
            file.flush()
            disk.sync(file.fileno())
    except OSError as error:
        raise storage_error(error, path, "writing the inputs") from error
    identity = InputsIdentity(len(seen), rollouts, digest.hexdigest())
    return Materialised(identity, own, own_rollouts)


def read_tasks(path: Path) -> Iterator[Task]:
    """Every task of a materialised file. Raises InputsError with file and line, StorageError."""
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                try:
                    read = _DECODER.decode(line)
                    yield Task(read.task, Row(bytes(read.row)), read.repeats)
                except ValueError as error:
                    raise InputsError(f"{path}:{number}: this is no task ({error})") from error
    except OSError as error:
        raise storage_error(error, path, "reading the inputs") from error


def first_difference(one: Path, other: Path) -> int | None:
    """The first line, from 1, at which two files differ."""
    with one.open("rb") as left, other.open("rb") as right:
        number = 0
        while True:
            number += 1
            ours, theirs = left.readline(), right.readline()
            if ours != theirs:
                return number
            if not ours:
                return None


def temporary_inputs(directory: Path) -> Path:
    """Where inputs are written before it is known whether they are this run's.

    Files that killed processes left behind are removed after an hour.
    """
    for stale in directory.glob(".inputs-*.tmp"):
        with contextlib.suppress(FileNotFoundError):
            if stale.stat().st_mtime < time.time() - 3600:
                stale.unlink()
    return directory / f".inputs-{uuid4().hex}.tmp"
