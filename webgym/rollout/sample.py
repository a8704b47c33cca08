"""The sample of an iteration: the tasks it rolls out, drawn once and kept in a file.

    <split>_trajectories/iteration5.sample.jsonl

The first line has the settings of the sample, each further line is a task. All ranks take their
tasks from this file. Any rank may come first: it draws the sample, writes a file, and links it to
the shared name, which only one rank can do. The other ranks, and later processes, read the existing
file and reject it where their settings would give another sample. Only the blocklist may differ,
because it changes with time; the file names the excluded domains.

The position of a task in the sample is its index everywhere: in the run of its rank, and as the
`trajectory_index` of its trajectories.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Protocol, runtime_checkable
from uuid import uuid4

import msgspec

from rollgym.records import Row, RowError, Task
from rollgym.records.decoding import JsonDecoder
from rollgym.store import Disk, IdentityError, InputsError
from rollgym.store.disk import make_directory, sync_path
from rollgym.store.errors import storage_error, storage_errors
from rollgym.store.inputs import decode_task
from webgym.models.verifiers import find_verifier
from webgym.tasks.file import TaskFile
from webgym.tasks.task import Split, WebTask
from webgym.utils.rollout_sampler import (
    Draw,
    RolloutSampler,
    SamplerSettings,
    deal,
    divide,
    first_tasks,
)

SCHEMA_VERSION = 1


class SampleOrigin(SamplerSettings, frozen=True, kw_only=True):
    """The settings that decide a sample, except the blocklist, and its division over ranks."""

    split: Split
    iteration: int
    seed: int
    tasks_sha256: str
    repeats: int = 1
    rank_weights: tuple[float, ...] = (1.0,)

    def differences(self, other: "SampleOrigin") -> list[str]:
        """The differences, a line each."""
        return [
            f"{name}: {_as_json(ours)} in the sample, {_as_json(theirs)} now"
            for name in self.__struct_fields__
            if (ours := getattr(self, name)) != (theirs := getattr(other, name))
        ]


class SampleHeader(msgspec.Struct, frozen=True, kw_only=True):
    """The first line. `blocked` counts the excluded tasks by domain."""

    schema_version: int = SCHEMA_VERSION
    origin: SampleOrigin
    tasks: int
    blocked: dict[str, int] = {}
    notes: tuple[str, ...] = ()


_HEADER = JsonDecoder(SampleHeader)


class Sample:
    """A sample on disk."""

    def __init__(self, path: Path) -> None:
        """Raises InputsError where the file is not a sample, StorageError."""
        self.path = path
        self.header = _read_header(path)
        self._weights = self.header.origin.rank_weights

    @property
    def rank_count(self) -> int:
        return len(self._weights)

    def count(self, rank: int) -> int:
        """The number of tasks of a rank."""
        return divide(self.header.tasks, self._weights)[rank]

    def rollouts(self, rank: int) -> int:
        """The number of rollouts of a rank."""
        return self.count(rank) * self.header.origin.repeats

    def tasks(self, rank: int) -> Iterator[Task]:
        """The tasks of a rank, read one at a time. Raises InputsError, StorageError."""
        owners = deal(self.header.tasks, self._weights)
        for owner, task in zip(owners, self._all(), strict=True):
            if owner == rank:
                yield task

    def require(self, origin: SampleOrigin) -> None:
        """Raise IdentityError where the sample was drawn with other settings."""
        different = self.header.origin.differences(origin)
        if different:
            raise IdentityError(
                f"{self.path} was drawn with other settings:\n"
                + "".join(f"  {line}\n" for line in different)
                + "Give the same settings on every rank and when continuing, or start another "
                "iteration"
            )

    def _all(self) -> Iterator[Task]:
        found = 0
        try:
            with self.path.open("rb") as file:
                for line in islice(file, 1, None):
                    found += 1
                    if found <= self.header.tasks:
                        yield decode_task(line)
        except OSError as error:
            raise storage_error(error, self.path, "reading the sample") from error
        except ValueError as error:
            raise InputsError(f"{self.path}:{found + 1}: this is not a task ({error})") from error
        if found != self.header.tasks:
            raise InputsError(
                f"{self.path} has {found} tasks where its first line says {self.header.tasks}: "
                "restore the file from a copy"
            )


def share_sample(
    path: Path,
    origin: SampleOrigin,
    tasks: TaskFile,
    blocked: Callable[[], frozenset[str]] = frozenset,
) -> Sample:
    """The existing sample at `path`, or a new one, the same for all ranks.

    `blocked` returns the domains to exclude from a training sample. Raises IdentityError where the
    existing sample was drawn with other settings, SamplingError, InputsError, StorageError.
    """
    if not path.exists():
        draw = _draw(origin, tasks, blocked)
        header = SampleHeader(
            origin=origin, tasks=len(draw.positions), blocked=draw.blocked, notes=draw.notes
        )
        _publish(path, _lines(header, draw, tasks))
    sample = Sample(path)
    sample.require(origin)
    return sample


def _draw(origin: SampleOrigin, tasks: TaskFile, blocked: Callable[[], frozenset[str]]) -> Draw:
    if origin.split == "test":
        return first_tasks(tasks.table, origin.size)
    return RolloutSampler(origin).draw(tasks.table, origin.seed, origin.iteration, blocked())


def _lines(header: SampleHeader, draw: Draw, tasks: TaskFile) -> Iterator[bytes]:
    yield msgspec.json.encode(header) + b"\n"
    for index, row in enumerate(tasks.rows(draw.positions)):
        yield b'{"task":%d,"repeats":%d,"row":%b}\n' % (index, header.origin.repeats, row.raw)


def _publish(path: Path, lines: Iterable[bytes]) -> None:
    """Link a complete file to its name, unless another process has done so."""
    disk, draft = Disk(), path.with_name(f".{path.name}.{uuid4().hex}.tmp")
    with storage_errors(path, "writing the sample"):
        make_directory(disk, path.parent)
        try:
            with draft.open("wb") as file:
                file.writelines(lines)
                file.flush()
                disk.sync(file.fileno())
            try:
                os.link(draft, path)
            except FileExistsError:
                return
            sync_path(disk, path.parent)
        finally:
            draft.unlink(missing_ok=True)


def _read_header(path: Path) -> SampleHeader:
    try:
        with path.open("rb") as file:
            line = file.readline()
        header = _HEADER.decode(line)
    except OSError as error:
        raise storage_error(error, path, "reading the sample") from error
    except ValueError as error:
        raise InputsError(f"{path}:1: this is not the first line of a sample ({error})") from error
    if header.schema_version != SCHEMA_VERSION:
        raise InputsError(
            f"{path} has schema version {header.schema_version}, but this program reads "
            f"{SCHEMA_VERSION}: use the version of the program that wrote it"
        )
    return header


def _as_json(value: object) -> str:
    return msgspec.json.encode(value).decode()


@runtime_checkable
class DataFrame(Protocol):
    """A data frame of pandas or a similar library."""

    def to_dict(self, orient: str) -> list[dict[str, object]]: ...


Sampled = Iterable[Task | WebTask | Row | Mapping[str, object]] | DataFrame


def tasks_of(sampled: Sampled) -> Iterator[Task]:
    """The sampled tasks of AsyncWebGym, checked, each with its index. Raises InputsError.

    Rows are numbered in their order; a `Task` has its index and its repeats already.
    """
    rows = sampled.to_dict("records") if isinstance(sampled, DataFrame) else sampled
    for position, given in enumerate(rows):
        task = _task(position, given)
        try:
            web_task = WebTask.of(task.row, str(task.index))
            if web_task.verifier is not None and not web_task.is_checked_by_its_server:
                find_verifier(web_task.verifier)
        except RowError as error:
            raise InputsError(f"sampled task {position} is not a web task: {error}") from error
        yield task


def _task(position: int, given: Task | WebTask | Row | Mapping[str, object]) -> Task:
    match given:
        case Task():
            return given
        case WebTask():
            return Task(position, given.row)
        case Row():
            return Task(position, given)
        case Mapping():
            try:
                return Task(position, Row.of(given))
            except TypeError as error:
                raise InputsError(f"sampled task {position} is not a row: {error}") from error
        case _:
            raise InputsError(
                f"sampled task {position} is {type(given).__name__}, not a row of a task file"
            )
