"""Aggregation: rank 0 combines the files of all ranks at the end of an iteration.

A rank is done when its metrics are final and its trajectories are in their file. Rank 0 waits for
all ranks up to a timeout, and reports what it waits for. Then it copies the trajectories of the
ranks that are done into one file, in the order of the ranks, and adds up their metrics exactly. A
missing rank is named, and all its rollouts count as unresolved.

The files of the ranks stay. A later aggregation adds ranks that were late, and never removes a rank
that an earlier one had: the part of a rank that is not done now is taken from the earlier file. If
the rank's own files are gone, that part is enough and rank 0 does not wait. If the rank is running
again, rank 0 waits for it, and names it when it is not done in time.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import chain
from operator import add
from pathlib import Path

import msgspec

from rollgym.engine import ExitStatus
from rollgym.store import FileLock, RefusedError
from webgym.rollout.iteration import (
    IterationCoverage,
    IterationPaths,
    IterationReport,
    ReportError,
    read_report,
    write_report,
)
from webgym.rollout.iteration_files import FORMAT_VERSION
from webgym.rollout.ranks import paths_of_rank
from webgym.rollout.sample import Sample
from webgym.trajectory.metrics import (
    NO_METRICS,
    GroupMeter,
    TaskGroupCounts,
    metrics_of,
    total_groups,
)
from webgym.trajectory.records import SUCCESS_REWARD
from webgym.trajectory.torch_archive import encode
from webgym.trajectory.torch_file import TorchDraft, TorchFile, TorchFileError, read_torch_file


class MissingRank(msgspec.Struct, frozen=True):
    """A rank that is not done, its number of tasks and rollouts, and its progress.

    `gone` says that its files are missing, or some of them.
    """

    rank: int
    tasks: int
    rollouts: int
    progress: str
    gone: bool = False

    def __str__(self) -> str:
        return f"rank {self.rank} with {self.tasks} tasks ({self.progress})"


class RankPart(msgspec.Struct, frozen=True):
    """The part of a rank: the trajectories of `tasks` in the file, or all of them for None."""

    rank: int
    trajectories: Path
    report: IterationReport
    tasks: frozenset[int] | None = None

    def fragments(self) -> Iterator[bytes]:
        """Its pickled trajectories. Raises TorchFileError, StorageError."""
        with TorchFile(self.trajectories) as file:
            if self.tasks is None:
                yield from file.fragments()
                return
            for trajectory in file.trajectories():
                if trajectory["trajectory_index"] in self.tasks:
                    yield encode(trajectory)


RankState = RankPart | MissingRank


def rank_states(paths: IterationPaths, sample: Sample) -> list[RankState]:
    """The state of each rank that has tasks."""
    ranks = (rank for rank in range(sample.rank_count) if sample.count(rank))
    count = sample.rank_count
    return [_rank_state(paths_of_rank(paths, rank, count), sample, rank) for rank in ranks]


def _rank_state(paths: IterationPaths, sample: Sample, rank: int) -> RankState:
    try:
        found = _find_report(paths, sample.rollouts(rank))
    except (ReportError, TorchFileError) as error:
        found = str(error)
    if isinstance(found, str):
        gone = not (paths.metrics.exists() and paths.trajectories.exists())
        return missing_rank(sample, rank, found, gone=gone)
    return RankPart(rank, paths.trajectories, found)


def _find_report(paths: IterationPaths, expected: int) -> IterationReport | str:
    """The final report of a rank that is done, or its progress in words."""
    report = read_report(paths.metrics)
    if report is None:
        return "no files yet"
    coverage = report.coverage
    if coverage.expected != expected:
        return f"{paths.metrics.name} has {coverage.expected} rollouts, not {expected}"
    if not report.final:
        return f"{expected - coverage.unresolved} of {expected} rollouts done"
    if not paths.trajectories.exists():
        return f"{paths.trajectories.name} is missing"
    with TorchFile(paths.trajectories) as file:
        if len(file) == coverage.completed + coverage.failed:
            return report
        return (
            f"{paths.trajectories.name} has {len(file)} trajectories, which contradicts its metrics"
        )


def missing_rank(sample: Sample, rank: int, progress: str, *, gone: bool = False) -> MissingRank:
    return MissingRank(rank, sample.count(rank), sample.rollouts(rank), progress, gone)


def find_earlier(paths: IterationPaths, sample: Sample) -> IterationReport | None:
    """The report of an earlier aggregation, if its files exist. Raises StorageError."""
    try:
        report = read_report(paths.metrics)
    except ReportError:
        return None
    there = report is not None and paths.trajectories.exists()
    return report if report and there and report.world_size == sample.rank_count else None


def has_part(earlier: IterationReport | None, rank: int) -> bool:
    """Whether the earlier aggregation has the part of this rank."""
    return earlier is not None and rank not in earlier.missing_ranks


def earlier_part(
    paths: IterationPaths, sample: Sample, rank: int, earlier: IterationReport
) -> RankPart | None:
    """The part of a rank in the earlier file; None where that file is damaged."""
    tasks = frozenset(task.index for task in sample.tasks(rank))
    metrics, failed, groups = NO_METRICS, 0, GroupMeter()
    try:
        for trajectory in read_torch_file(paths.trajectories):
            if trajectory["trajectory_index"] in tasks:
                metrics += metrics_of(trajectory)
                if trajectory.get("outcome") == "failed":
                    failed += 1
                else:
                    task = int(str(trajectory["trajectory_index"]))
                    groups.add(task, is_solved=_is_solved(trajectory))
    except TorchFileError:
        return None
    expected = sample.rollouts(rank)
    coverage = IterationCoverage(
        expected=expected,
        completed=metrics.total_trajectories - failed,
        failed=failed,
        omitted=expected - metrics.total_trajectories,
        unresolved=0,
    )
    size = sample.header.origin.repeats
    counts = groups.counts(size, expected // size) if size > 1 else None
    report = msgspec.structs.replace(earlier, coverage=coverage, metrics=metrics, groups=counts)
    return RankPart(rank, paths.trajectories, report, tasks)


POLL_SECONDS = 1.0
REPORT_SECONDS = 60.0

ReportLine = Callable[[str], object]


class Aggregation(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an aggregation. `kept` are ranks whose part comes from an earlier file."""

    report: IterationReport
    missing: tuple[MissingRank, ...] = ()
    kept: tuple[int, ...] = ()

    @property
    def exit_status(self) -> ExitStatus:
        coverage = self.report.coverage
        if self.missing or coverage.unresolved:
            return ExitStatus.INTERRUPTED
        if coverage.failed:
            return ExitStatus.FAILED
        return ExitStatus.OMITTED if coverage.omitted else ExitStatus.COMPLETE


def aggregate(
    paths: IterationPaths,
    *,
    timeout: float = 0.0,
    report: ReportLine = lambda _: None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], object] = time.sleep,
) -> Aggregation:
    """Wait up to `timeout` seconds for the ranks of an iteration, and combine their files.

    The sample of the iteration has the number of ranks. Raises RefusedError where there is only
    one, or another process aggregates already; StorageError.
    """
    sample = Sample(paths.sample)
    if sample.rank_count == 1:
        raise RefusedError(f"{paths.sample} has one rank: nothing can be aggregated")
    earlier = find_earlier(paths, sample)
    _wait(lambda: _awaited(paths, sample, earlier), timeout, report, clock, sleep)
    lock = FileLock(paths.folder / f".iteration{paths.iteration}.aggregation.lock")
    lock.acquire(f"the aggregation of {paths.trajectories}")
    try:
        return _combine(paths, sample)
    finally:
        lock.release()


def _awaited(
    paths: IterationPaths, sample: Sample, earlier: IterationReport | None
) -> list[MissingRank]:
    """The ranks to wait for: not those that are gone and have a part in the earlier file."""
    missing = (each for each in rank_states(paths, sample) if isinstance(each, MissingRank))
    return [each for each in missing if not (each.gone and has_part(earlier, each.rank))]


def _wait(
    awaited: Callable[[], Sequence[MissingRank]],
    timeout: float,
    report: ReportLine,
    clock: Callable[[], float],
    sleep: Callable[[float], object],
) -> None:
    """Wait until all ranks are done or the time is over, and report changes and the rest."""
    deadline, reported_at = clock() + timeout, -REPORT_SECONDS
    reported: frozenset[int] | None = None
    while True:
        waited_for = awaited()
        left = deadline - clock()
        if not waited_for or left <= 0:
            return
        ranks = frozenset(missing.rank for missing in waited_for)
        if ranks != reported or clock() - reported_at >= REPORT_SECONDS:
            names = ", ".join(map(str, waited_for))
            report(f"waiting up to {left / 60:.1f} more minutes for {names}")
            reported, reported_at = ranks, clock()
        sleep(min(POLL_SECONDS, left))


def _combine(paths: IterationPaths, sample: Sample) -> Aggregation:
    states = rank_states(paths, sample)
    while True:
        parts = [each for each in states if isinstance(each, RankPart)]
        missing = [each for each in states if isinstance(each, MissingRank)]
        kept = _kept(paths, sample, missing)
        parts = sorted([*parts, *kept.values()], key=lambda part: part.rank)
        absent = [each for each in missing if each.rank not in kept]
        named = tuple(each for each in missing if not (each.gone and each.rank in kept))
        report = _merged(paths, sample, parts, absent, final=not named)
        try:
            _write(paths, report, parts)
        except TorchFileError as error:
            # A damaged file is only found when it is read to its end.
            before, states = states, [_after(error, each, sample) for each in states]
            if before == states:
                raise
        else:
            return Aggregation(report=report, missing=named, kept=tuple(kept))


def _kept(
    paths: IterationPaths, sample: Sample, missing: Sequence[MissingRank]
) -> dict[int, RankPart]:
    """The earlier parts of ranks that are missing now."""
    earlier = find_earlier(paths, sample)
    if earlier is None:
        return {}
    had = [each.rank for each in missing if has_part(earlier, each.rank)]
    parts = {rank: earlier_part(paths, sample, rank, earlier) for rank in had}
    return {rank: part for rank, part in parts.items() if part is not None}


def _merged(
    paths: IterationPaths,
    sample: Sample,
    parts: Sequence[RankPart],
    absent: Sequence[MissingRank],
    *,
    final: bool,
) -> IterationReport:
    reports = [each.report for each in parts]
    unresolved = sum(each.rollouts for each in absent)
    coverage = IterationCoverage(
        expected=sum(report.coverage.expected for report in reports) + unresolved,
        completed=sum(report.coverage.completed for report in reports),
        failed=sum(report.coverage.failed for report in reports),
        omitted=sum(report.coverage.omitted for report in reports),
        unresolved=unresolved,
    )
    return IterationReport(
        split=paths.split,
        iteration=paths.iteration,
        world_size=sample.rank_count,
        final=final,
        coverage=coverage,
        metrics=reduce(add, (report.metrics for report in reports), NO_METRICS),
        seconds=max((report.seconds for report in reports), default=0.0),
        trajectories=paths.trajectories.name,
        missing_ranks=tuple(each.rank for each in absent),
        groups=_groups(sample, reports, absent),
    )


def _groups(
    sample: Sample, reports: Sequence[IterationReport], absent: Sequence[MissingRank]
) -> TaskGroupCounts | None:
    size = sample.header.origin.repeats
    if size == 1:
        return None
    missing = TaskGroupCounts(rollouts_per_task=size, expected=sum(each.tasks for each in absent))
    return total_groups([missing, *(each.groups for each in reports if each.groups)])


def _write(paths: IterationPaths, report: IterationReport, parts: Sequence[RankPart]) -> None:
    """Write the trajectories first, because the metrics refer to them."""
    metadata = {
        "format_version": FORMAT_VERSION,
        "split": report.split,
        "iteration": report.iteration,
        "rank": report.rank,
        "world_size": report.world_size,
        **msgspec.structs.asdict(report.coverage),
        "final": report.final,
        "missing_ranks": list(report.missing_ranks),
        "rollouts_per_task": report.groups.rollouts_per_task if report.groups else 1,
        "agent": _agent(parts),
    }
    with TorchDraft(paths.trajectories) as draft:
        draft.save(metadata, chain.from_iterable(part.fragments() for part in parts))
    write_report(paths.metrics, report)


def _agent(parts: Sequence[RankPart]) -> object:
    """The description of the agent, which is the same on all ranks."""
    if not parts:
        return {}
    with TorchFile(parts[0].trajectories) as file:
        return file.metadata.get("agent", {})


def _after(error: TorchFileError, state: RankState, sample: Sample) -> RankState:
    """The state of a rank after a file was found damaged."""
    if isinstance(state, RankPart) and state.trajectories == error.path:
        return missing_rank(sample, state.rank, str(error))
    return state


def _is_solved(trajectory: Mapping[str, object]) -> bool:
    reward = trajectory.get("reward")
    return isinstance(reward, float | int) and reward >= SUCCESS_REWARD
