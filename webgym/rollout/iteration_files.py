"""The files of an iteration: trajectories and metrics, kept in step with the journal of its run.

`IterationFiles` is an observer. When a rollout has ended, it reads the record from the journal,
pickles the trajectory once, and adds it to a draft (see `torch_file`). After every
`save_every_percent` of the expected rollouts, and at the end, it writes the `.pt` file from the
draft, and the metrics beside it.

The journal decides: `rebuild` makes the draft from it, before a collection and after missed events.
So the next file contains what a killed process had not saved, once.

A completed rollout stays. A failed one may run again, so failed trajectories are in a draft of
their own, from which another outcome removes them; in the file they come after the completed ones.
Omitted rollouts are counted and have no trajectory.

Where a task has several rollouts, they are a group. The file has groups together, in the order of
tasks and repeats; so their trajectories are in a draft that is written in this order.
"""

import logging
import math
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import repeat
from pathlib import Path
from typing import Any

import msgspec

from rollgym.closing import Closable
from rollgym.engine import AttemptRecorded, CollectionStarted, Event
from rollgym.records import Attempt, Completed, Failed, Omitted, RolloutKey, RowError
from rollgym.records.decoding import JsonDecoder
from rollgym.store import (
    Disk,
    RecordLookup,
    StoreError,
    TaskLookup,
    WriteLock,
    inputs_path,
    journal_paths,
    read_records,
)
from rollgym.store.disk import write_all
from rollgym.store.errors import storage_errors
from webgym.rollout.iteration import (
    IterationCoverage,
    IterationLabels,
    IterationReport,
    write_report,
)
from webgym.tasks.task import WebTask
from webgym.trajectory.metrics import GroupMeter, TaskGroupCounts, calculate_rollout_metrics
from webgym.trajectory.plain import PlainTrajectory, failed_to_plain, to_plain
from webgym.trajectory.records import Trajectory
from webgym.trajectory.torch_archive import encode
from webgym.trajectory.torch_file import TorchDraft

FORMAT_VERSION = 1
WRITE_TIMEOUT = 600.0
"""Seconds to wait for another thread; a checkpoint copies all trajectories so far."""

Holds = Callable[[int], bool]
OnCheckpoint = Callable[[Path], object]
"""Called with the `.pt` file that was written."""
OnTrajectory = Callable[[PlainTrajectory], object]

_TRAJECTORY = JsonDecoder(Trajectory)
_log = logging.getLogger(__name__)


class NoTrajectoryError(StoreError):
    """The record of a completed rollout has no trajectory."""


class IterationFiles(Closable):
    """The trajectories and the metrics of one run, or of the tasks in it that `holds` accepts."""

    name = "trajectory files"

    def __init__(
        self,
        *,
        trajectories: Path,
        metrics: Path,
        directory: Path,
        holds: Holds,
        expected: int,
        labels: IterationLabels,
        agent: Mapping[str, object] | None = None,
        save_every_percent: float = 10.0,
        on_checkpoint: OnCheckpoint | None = None,
        on_trajectory: OnTrajectory | None = None,
    ) -> None:
        """`trajectories` and `metrics` are the files to write, `directory` is that of the run.

        `agent` describes the agent in the file. `on_checkpoint` is called after each write of the
        files, also the last one; `on_trajectory` for each rollout that ends from now on. Both are
        called in the thread of the observer, and their errors are logged. Raises InputsError,
        StorageError, and ValueError for a percentage that is not above 0.
        """
        if not save_every_percent > 0:
            raise ValueError(f"save_every_percent is {save_every_percent:g}: it must be above 0")
        self._metrics = metrics
        self._directory = directory
        self._holds = holds
        self._expected = expected
        self._labels = labels
        self._agent = dict(agent or {})
        self._every = max(1, math.ceil(expected * save_every_percent / 100))
        self._on_checkpoint = on_checkpoint
        self._on_trajectory = on_trajectory
        with ExitStack() as opened:
            self._tasks = opened.enter_context(TaskLookup(inputs_path(directory)))
            self._records = opened.enter_context(RecordLookup())
            self._completed = opened.enter_context(TorchDraft(trajectories))
            self._grouped = opened.enter_context(KeyedFragments(trajectories.parent))
            self._failed = opened.enter_context(KeyedFragments(trajectories.parent))
            self._opened = opened.pop_all()
        self._measured = calculate_rollout_metrics(())
        self._groups, self._group_size = GroupMeter(), 1
        self._omitted = 0
        self._saved = 0
        self._rebuilds = 0
        self._lock = WriteLock(self._completed.path, WRITE_TIMEOUT)
        self._began = time.monotonic()

    def observe(self, events: Sequence[Event]) -> None:
        """Handle a batch of events. Raises StoreError."""
        rebuilds = self._rebuilds
        for event in events:
            match event:
                case CollectionStarted() if event.resumed < event.expected:
                    # From now on the metrics of the rank are not final any more.
                    with self._lock.held():
                        write_report(self._metrics, self.report())
                case AttemptRecorded() if event.attempt.final and self._holds(event.attempt.task):
                    self._observe_end(event, rebuilds)

    def rebuild(self) -> None:
        """Rebuild the drafts from the journal; the files follow with the next save.

        Raises StoreError.
        """
        with self._lock.held():
            self._rebuilds += 1
            self._completed.clear()
            self._grouped.clear()
            self._failed.clear()
            self._groups = GroupMeter()
            self._measured = calculate_rollout_metrics(())
            self._omitted = 0
            for entry, stands in read_records(journal_paths(self._directory)):
                if stands and entry.attempt.final and self._holds(entry.attempt.task):
                    self._add(entry.attempt)
            self._saved = len(self)

    def finish(self, *, missed: bool) -> None:
        """Write the files at the end of a collection; `missed` says that events were dropped.

        The report is final when every rollout has an outcome. Raises StoreError.
        """
        if missed:
            self.rebuild()
        with self._lock.held():
            self._save(self.report(ended=True))
        _call(self._on_checkpoint, self._completed.path)

    def report(self, *, ended: bool = False) -> IterationReport:
        """The current report. It is final where the collection `ended` with nothing unresolved."""
        failed = len(self._failed)
        unresolved = self._expected - len(self) - self._omitted
        return IterationReport(
            **msgspec.structs.asdict(self._labels),
            final=ended and unresolved == 0,
            coverage=IterationCoverage(
                expected=self._expected,
                completed=len(self) - failed,
                failed=failed,
                omitted=self._omitted,
                unresolved=unresolved,
            ),
            metrics=calculate_rollout_metrics(repeat(None, failed), self._measured),
            seconds=round(time.monotonic() - self._began, 3),
            trajectories=self._completed.path.name,
            groups=self._group_counts(),
        )

    def _group_counts(self) -> TaskGroupCounts | None:
        size = self._group_size
        return self._groups.counts(size, self._expected // size) if size > 1 else None

    def __len__(self) -> int:
        """The number of trajectories."""
        return len(self._completed) + len(self._grouped) + len(self._failed)

    def close(self) -> None:
        self._opened.close()

    def _observe_end(self, event: AttemptRecorded, rebuilds: int) -> None:
        with self._lock.held():
            # An abandoned observer must not add what a rebuild has added since.
            if self._rebuilds != rebuilds:
                return
            self._omitted -= isinstance(event.replaced, Omitted)
            plain = self._add(self._records.record(event.journal, event.offset))
            is_due = self._is_due()
            if is_due:
                self._save(self.report())
        if plain is not None:
            _call(self._on_trajectory, plain)
        if is_due:
            _call(self._on_checkpoint, self._completed.path)

    def _is_due(self) -> bool:
        """Whether another share of trajectories is there; `finish` saves the last one."""
        more = len(self) // self._every > self._saved // self._every
        return more and len(self) + self._omitted < self._expected

    def _add(self, attempt: Attempt) -> PlainTrajectory | None:
        """Add the outcome of a rollout, in place of its earlier outcome."""
        self._failed.drop(attempt.key)
        self._group_size = max(self._group_size, self._tasks.task(attempt.task).repeats)
        match attempt.outcome:
            case Completed(reward=reward):
                plain = to_plain(self._trajectory(attempt), reward)
                self._measured = calculate_rollout_metrics((plain,), self._measured)
                is_solved = attempt.outcome.succeeded
                self._add_completed(attempt.key, encode(plain), is_solved=is_solved)
            case Failed(failure=failure):
                plain = failed_to_plain(self._partial_trajectory(attempt), failure)
                self._failed.put(attempt.key, encode(plain))
            case Omitted():
                self._omitted += 1
                return None
        return plain

    def _add_completed(self, key: RolloutKey, fragment: bytes, *, is_solved: bool) -> None:
        if self._group_size == 1:
            self._completed.append(fragment)
        else:
            self._groups.add(key.task, is_solved=is_solved)
            self._grouped.put(key, fragment)

    def _trajectory(self, attempt: Attempt) -> Trajectory:
        """Raises NoTrajectoryError."""
        try:
            trajectory = _TRAJECTORY.decode(attempt.outcome.result)
        except msgspec.DecodeError as error:
            raise NoTrajectoryError(
                f"{self._directory}: the result of {attempt.key} is not a trajectory ({error}). If "
                "another command made this run, use another folder."
            ) from error
        return msgspec.structs.replace(
            trajectory.with_versions(attempt.outcome.turns),
            trajectory_index=attempt.task,
            repeat=attempt.repeat,
            attempt=attempt.attempt,
        )

    def _partial_trajectory(self, attempt: Attempt) -> Trajectory:
        """The trajectory of a failed rollout; only the task where it recorded none."""
        try:
            trajectory = self._trajectory(attempt)
        except NoTrajectoryError:
            trajectory = self._bare_trajectory(attempt)
        return msgspec.structs.replace(trajectory, ending=trajectory.ending or "failed")

    def _bare_trajectory(self, attempt: Attempt) -> Trajectory:
        row, task_id = self._tasks.task(attempt.task).row, str(attempt.task)
        try:
            task_id = WebTask.of(row, task_id).task_id
        except RowError:
            _log.debug("task %s of %s is not a web task", attempt.task, self._directory)
        return Trajectory(
            task_id=task_id,
            task=msgspec.Raw(row.raw),
            trajectory_index=attempt.task,
            repeat=attempt.repeat,
            attempt=attempt.attempt,
            split=self._labels.split,
        )

    def _save(self, report: IterationReport) -> None:
        labels = {name: getattr(report, name) for name in IterationLabels.__struct_fields__}
        coverage = msgspec.structs.asdict(report.coverage)
        metadata = {"format_version": FORMAT_VERSION, **labels, **coverage, "final": report.final}
        metadata |= {"agent": self._agent, "rollouts_per_task": self._group_size}
        self._completed.save(metadata, fragments_in_order(self._grouped, self._failed))
        self._saved = len(self)
        write_report(self._metrics, report)


def _call(callback: Callable[[Any], object] | None, argument: object) -> None:
    """Call a user's callback; its errors do not stop the files."""
    if callback is None:
        return
    try:
        callback(argument)
    except Exception:  # noqa: BLE001 - a user's callback may raise anything
        _log.exception("a callback of the trajectory files failed; writing continues")


class KeyedFragments(Closable):
    """The pickled trajectories of rollouts that may be replaced or ordered, in an unnamed file.

    A few words per rollout are in memory. For one thread at a time.
    """

    def __init__(self, folder: Path, disk: Disk | None = None) -> None:
        """Raises StorageError."""
        self._folder = folder
        self._disk = disk or Disk()
        self._locations: dict[RolloutKey, tuple[int, int]] = {}
        self._size = 0
        with storage_errors(folder, "making a draft of trajectories"):
            self._file = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115

    def __len__(self) -> int:
        return len(self._locations)

    def put(self, key: RolloutKey, fragment: bytes) -> None:
        """Store the fragment of a rollout, in place of an earlier one. Raises StorageError."""
        with storage_errors(self._folder, "drafting a trajectory"):
            os.lseek(self._file.fileno(), self._size, os.SEEK_SET)
            write_all(self._disk, self._file.fileno(), fragment)
        self._locations[key] = (self._size, len(fragment))
        self._size += len(fragment)

    def drop(self, key: RolloutKey) -> None:
        """Remove the fragment of a rollout, if there is one."""
        self._locations.pop(key, None)

    def clear(self) -> None:
        self._locations.clear()
        self._size = 0

    def __iter__(self) -> Iterator[RolloutKey]:
        return iter(self._locations)

    def fragment(self, key: RolloutKey) -> bytes:
        """The fragment of a rollout. Raises OSError."""
        offset, length = self._locations[key]
        return os.pread(self._file.fileno(), length, offset)

    def close(self) -> None:
        self._file.close()


def fragments_in_order(grouped: KeyedFragments, failed: KeyedFragments) -> Iterator[bytes]:
    """The fragments of both; of groups by task and repeat, else as they came. Raises OSError."""
    places = [(key, part) for part in (grouped, failed) for key in part]
    if len(grouped):
        places.sort(key=lambda place: (place[0].task, place[0].repeat))
    for key, part in places:
        yield part.fragment(key)
