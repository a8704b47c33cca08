"""Putting the files of all ranks together, which the master does at the end of an iteration.

A rank has arrived when its metrics file is final and the trajectories it speaks of are in their
file. The master waits for all, but not for ever, and says what it waits for. Then the trajectories
of those that have arrived become one file, copied as they are, in the order of the ranks, and their
metrics are added up exactly, because they are made of whole numbers. A rank that is missing is
named, and all of its rollouts count as unresolved.

The files of ranks stay. Putting them together again takes in what has arrived late, and never takes
out what an earlier time had taken in: the part of a rank that has not arrived now, but had then, is
taken from the earlier file. Where the rank's own files are gone, because somebody tidied up, that
part is as good as its own and nobody waits for it. Where the rank is at work again, it is waited
for, and named when it does not arrive.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from itertools import chain
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
from webgym.rollout.sample import Sample
from webgym.trajectory.metrics import RolloutMeter
from webgym.trajectory.torch_archive import encode
from webgym.trajectory.torch_file import TorchDraft, TorchFile, TorchFileError, read_torch_file


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


POLL_SECONDS = 1.0
TELL_SECONDS = 60.0

Tell = Callable[[str], object]


class Aggregation(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it. `kept` are the ranks whose part is that of an earlier time."""

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
    tell: Tell = lambda _: None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], object] = time.sleep,
) -> Aggregation:
    """Wait up to `timeout` seconds for the ranks of an iteration, and put their files together.

    The sample of the iteration says which ranks there are. Raises RefusedError where there are not
    several, or somebody else is at it; StorageError.
    """
    sample = Sample(paths.sample)
    if sample.rank_count == 1:
        raise RefusedError(f"{paths.sample} is of one rank: there is nothing to put together")
    earlier = find_earlier(paths, sample)
    _wait(lambda: _unsettled(paths, sample, earlier), timeout, tell, clock, sleep)
    lock = FileLock(paths.folder / f".iteration{paths.iteration}.aggregation.lock")
    lock.acquire(f"the aggregation of {paths.trajectories}")
    try:
        return _put_together(paths, sample)
    finally:
        lock.release()


def _unsettled(
    paths: IterationPaths, sample: Sample, earlier: IterationReport | None
) -> list[MissingRank]:
    """Those that are worth waiting for: not those whose part we have, and nothing else is left."""
    missing = (each for each in look(paths, sample) if isinstance(each, MissingRank))
    return [each for each in missing if not (each.gone and has_part(earlier, each.rank))]


def _wait(
    unsettled: Callable[[], Sequence[MissingRank]],
    timeout: float,
    tell: Tell,
    clock: Callable[[], float],
    sleep: Callable[[float], object],
) -> None:
    """Until all have arrived or the time is over. Tells what changes, and now and then the rest."""
    deadline, told_at = clock() + timeout, -TELL_SECONDS
    told: frozenset[int] | None = None
    while True:
        waited_for = unsettled()
        left = deadline - clock()
        if not waited_for or left <= 0:
            return
        ranks = frozenset(missing.rank for missing in waited_for)
        if ranks != told or clock() - told_at >= TELL_SECONDS:
            names = ", ".join(map(str, waited_for))
            tell(f"waiting {left / 60:.1f} more minutes at most for {names}")
            told, told_at = ranks, clock()
        sleep(min(POLL_SECONDS, left))


def _put_together(paths: IterationPaths, sample: Sample) -> Aggregation:
    standings = look(paths, sample)
    while True:
        parts = [each for each in standings if isinstance(each, Part)]
        missing = [each for each in standings if isinstance(each, MissingRank)]
        kept = _kept(paths, sample, missing)
        parts = sorted([*parts, *kept.values()], key=lambda part: part.rank)
        absent = [each for each in missing if each.rank not in kept]
        named = tuple(each for each in missing if not (each.gone and each.rank in kept))
        report = _merged(paths, sample, parts, absent, final=not named)
        try:
            _write(paths, report, parts)
        except TorchFileError as error:
            # Only who has read a file to its end knows that it is damaged.
            before, standings = standings, [_after(error, each, sample) for each in standings]
            if before == standings:
                raise
        else:
            return Aggregation(report=report, missing=named, kept=tuple(kept))


def _kept(paths: IterationPaths, sample: Sample, missing: Sequence[MissingRank]) -> dict[int, Part]:
    """What was put together before of ranks that are missing now."""
    earlier = find_earlier(paths, sample)
    if earlier is None:
        return {}
    had = [each.rank for each in missing if has_part(earlier, each.rank)]
    parts = {rank: earlier_part(paths, sample, rank, earlier) for rank in had}
    return {rank: part for rank, part in parts.items() if part is not None}


def _merged(
    paths: IterationPaths,
    sample: Sample,
    parts: Sequence[Part],
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
    meters = (RolloutMeter.of(report.metrics) for report in reports)
    return IterationReport(
        split=paths.split,
        iteration=paths.iteration,
        world_size=sample.rank_count,
        final=final,
        coverage=coverage,
        metrics=reduce(RolloutMeter.merged, meters, RolloutMeter()).metrics,
        seconds=max((report.seconds for report in reports), default=0.0),
        trajectories=paths.trajectories.name,
        missing_ranks=tuple(each.rank for each in absent),
    )


def _write(paths: IterationPaths, report: IterationReport, parts: Sequence[Part]) -> None:
    """The trajectories first: the metrics say that they are there."""
    metadata = {
        "format_version": FORMAT_VERSION,
        "split": report.split,
        "iteration": report.iteration,
        "rank": report.rank,
        "world_size": report.world_size,
        **msgspec.structs.asdict(report.coverage),
        "final": report.final,
        "missing_ranks": list(report.missing_ranks),
        "agent": _agent(parts),
    }
    with TorchDraft(paths.trajectories) as draft:
        draft.save(metadata, chain.from_iterable(part.fragments() for part in parts))
    write_report(paths.metrics, report)


def _agent(parts: Sequence[Part]) -> object:
    """Who acted: the same on all ranks."""
    if not parts:
        return {}
    with TorchFile(parts[0].trajectories) as file:
        return file.metadata.get("agent", {})


def _after(error: TorchFileError, standing: Standing, sample: Sample) -> Standing:
    """Where a rank stands after a file was found damaged."""
    if isinstance(standing, Part) and standing.trajectories == error.path:
        return missing_rank(sample, standing.rank, str(error))
    return standing
