"""The parts of ranks in an iteration: where each stands, and what an earlier file has of it."""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from webgym.iteration.paths import IterationPaths
from webgym.iteration.report import (
    IterationCoverage,
    IterationReport,
    ReportError,
    read_report,
)
from webgym.iteration.sample import Sample
from webgym.trajectory.metrics import RolloutMeter
from webgym.trajectory.plain_pickle import encode
from webgym.trajectory.torch_file import TorchFile, TorchFileError, read_torch_file


class MissingRank(msgspec.Struct, frozen=True):
    """A rank that has not arrived, what it was to do, and how far it is known to have come.

    `gone`: it has no files, or not all of them.
    """

    rank: int
    tasks: int
    rollouts: int
    standing: str
    gone: bool = False

    def __str__(self) -> str:
        return f"rank {self.rank} with {self.tasks} tasks ({self.standing})"


class Part(msgspec.Struct, frozen=True):
    """The part of a rank. `tasks`: of the file, only the trajectories of these; None: all."""

    rank: int
    trajectories: Path
    report: IterationReport
    tasks: frozenset[int] | None = None

    def fragments(self) -> Iterator[bytes]:
        """Its trajectories, as they are. Raises TorchFileError, StorageError."""
        with TorchFile(self.trajectories) as file:
            if self.tasks is None:
                yield from file.fragments()
                return
            for trajectory in file.trajectories():
                if trajectory["trajectory_index"] in self.tasks:
                    yield encode(trajectory)


Standing = Part | MissingRank
"""Where a rank stands."""


def look(paths: IterationPaths, sample: Sample) -> list[Standing]:
    """Where each rank stands that has something to do."""
    ranks = (rank for rank in range(sample.rank_count) if sample.count(rank))
    return [_look_at(paths.of_rank(rank, sample.rank_count), sample, rank) for rank in ranks]


def _look_at(paths: IterationPaths, sample: Sample, rank: int) -> Standing:
    try:
        found = _find_report(paths, sample.rollouts(rank))
    except (ReportError, TorchFileError) as error:
        found = str(error)
    if isinstance(found, str):
        gone = not (paths.metrics.exists() and paths.trajectories.exists())
        return missing_rank(sample, rank, found, gone=gone)
    return Part(rank, paths.trajectories, found)


def _find_report(paths: IterationPaths, expected: int) -> IterationReport | str:
    """The final report of a rank whose trajectories are there, or what is not so yet."""
    report = read_report(paths.metrics)
    if report is None:
        return "nothing of it yet"
    coverage = report.coverage
    if coverage.expected != expected:
        return f"{paths.metrics.name} is of {coverage.expected} rollouts, not of its {expected}"
    if not report.final:
        return f"{expected - coverage.unresolved} of {expected} rollouts done"
    if not paths.trajectories.exists():
        return f"{paths.trajectories.name} is not there"
    with TorchFile(paths.trajectories) as file:
        if len(file) == coverage.completed + coverage.failed:
            return report
        return f"{paths.trajectories.name} has {len(file)} trajectories, its metrics say otherwise"


def missing_rank(sample: Sample, rank: int, standing: str, *, gone: bool = False) -> MissingRank:
    return MissingRank(rank, sample.count(rank), sample.rollouts(rank), standing, gone)


def find_earlier(paths: IterationPaths, sample: Sample) -> IterationReport | None:
    """What was put together before, if its files are there. Raises StorageError."""
    try:
        report = read_report(paths.metrics)
    except ReportError:
        return None
    there = report is not None and paths.trajectories.exists()
    return report if report and there and report.world_size == sample.rank_count else None


def has_part(earlier: IterationReport | None, rank: int) -> bool:
    """Whether the part of this rank was put together before."""
    return earlier is not None and rank not in earlier.missing_ranks


def earlier_part(
    paths: IterationPaths, sample: Sample, rank: int, earlier: IterationReport
) -> Part | None:
    """The part of a rank, out of what was put together before; None where that is damaged."""
    tasks = frozenset(task.index for task in sample.tasks(rank))
    meter, failed = RolloutMeter(), 0
    try:
        for trajectory in read_torch_file(paths.trajectories):
            if trajectory["trajectory_index"] in tasks:
                meter.add(trajectory)
                failed += trajectory.get("outcome") == "failed"
    except TorchFileError:
        return None
    expected = sample.rollouts(rank)
    coverage = IterationCoverage(
        expected=expected,
        completed=meter.total - failed,
        failed=failed,
        omitted=expected - meter.total,
        unresolved=0,
    )
    report = msgspec.structs.replace(earlier, coverage=coverage, metrics=meter.metrics)
    return Part(rank, paths.trajectories, report, tasks)
