"""Putting the files of all ranks together, which the master does at the end of an iteration.

A rank has arrived when its metrics file is final and the trajectories it speaks of are in their
file. The master waits for all, but not for ever, and says what it waits for. Then the trajectories
of those that have arrived become one file, copied as they are, in the order of the ranks, and their
metrics are added up exactly, because they are made of whole numbers. A rank that is missing is
named, and all of its rollouts count as unresolved.

The files of ranks stay. Putting them together again takes in what has arrived late; it never takes
out what an earlier time had taken in.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from pathlib import Path

import msgspec

from rollgym.engine import ExitStatus
from rollgym.store import RefusedError
from rollgym.store.lock import FileLock
from webgym.iteration.files import FORMAT_VERSION
from webgym.iteration.paths import IterationPaths
from webgym.iteration.report import (
    IterationCoverage,
    IterationReport,
    ReportError,
    read_report,
    write_report,
)
from webgym.iteration.sample import Sample
from webgym.trajectory.metrics import RolloutMeter
from webgym.trajectory.torch_file import TorchDraft, TorchFile, TorchFileError

POLL_SECONDS = 1.0
TELL_SECONDS = 60.0

Tell = Callable[[str], object]


class MissingRank(msgspec.Struct, frozen=True):
    """A rank that has not arrived, what it was to do, and how far it is known to have come."""

    rank: int
    tasks: int
    rollouts: int
    standing: str

    def __str__(self) -> str:
        return f"rank {self.rank} with {self.tasks} tasks ({self.standing})"


class Aggregation(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it. `kept` says that the file of an earlier time had more, and was left."""

    report: IterationReport
    missing: tuple[MissingRank, ...] = ()
    kept: bool = False

    @property
    def exit_status(self) -> ExitStatus:
        coverage = self.report.coverage
        if self.missing or coverage.unresolved:
            return ExitStatus.INTERRUPTED
        if coverage.failed:
            return ExitStatus.FAILED
        return ExitStatus.OMITTED if coverage.omitted else ExitStatus.COMPLETE


class _Arrived(msgspec.Struct, frozen=True):
    rank: int
    trajectories: Path
    report: IterationReport


Standing = _Arrived | MissingRank


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
    _wait(lambda: _look(paths, sample), timeout, tell, clock, sleep)
    lock = FileLock(paths.folder / f".iteration{paths.iteration}.aggregation.lock")
    lock.acquire_soon(f"the aggregation of {paths.trajectories}")
    try:
        return _put_together(paths, sample)
    finally:
        lock.release()


def _look(paths: IterationPaths, sample: Sample) -> list[Standing]:
    """Where each rank stands that has something to do."""
    ranks = (rank for rank in range(sample.rank_count) if sample.count(rank))
    return [_look_at(paths.of_rank(rank, sample.rank_count), sample, rank) for rank in ranks]


def _look_at(paths: IterationPaths, sample: Sample, rank: int) -> Standing:
    try:
        found = _find_report(paths, sample.rollouts(rank))
    except (ReportError, TorchFileError) as error:
        found = str(error)
    if isinstance(found, str):
        return _missing(sample, rank, found)
    return _Arrived(rank, paths.trajectories, found)


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


def _missing(sample: Sample, rank: int, standing: str) -> MissingRank:
    return MissingRank(rank, sample.count(rank), sample.rollouts(rank), standing)


def _wait(
    look: Callable[[], Sequence[Standing]],
    timeout: float,
    tell: Tell,
    clock: Callable[[], float],
    sleep: Callable[[float], object],
) -> None:
    """Until all have arrived or the time is over. Tells what changes, and now and then the rest."""
    deadline, told_at = clock() + timeout, -TELL_SECONDS
    told: frozenset[int] | None = None
    while True:
        waited_for = [standing for standing in look() if isinstance(standing, MissingRank)]
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
    standings = _look(paths, sample)
    while True:
        arrived = [each for each in standings if isinstance(each, _Arrived)]
        missing = tuple(each for each in standings if isinstance(each, MissingRank))
        earlier = _earlier(paths, sample)
        if earlier and set(earlier.missing_ranks) < {each.rank for each in missing}:
            return Aggregation(report=earlier, missing=missing, kept=True)
        report = _merged(paths, sample, arrived, missing)
        try:
            _write(paths, report, arrived)
        except TorchFileError as error:
            # Only who has read a file to its end knows that it is damaged.
            before, standings = standings, [_after(error, each, sample) for each in standings]
            if before == standings:
                raise
        else:
            return Aggregation(report=report, missing=missing)


def _earlier(paths: IterationPaths, sample: Sample) -> IterationReport | None:
    """What an earlier time put together, if its files are whole."""
    try:
        report = read_report(paths.metrics)
    except ReportError:
        return None
    there = report is not None and paths.trajectories.exists()
    return report if report and there and report.world_size == sample.rank_count else None


def _merged(
    paths: IterationPaths,
    sample: Sample,
    arrived: Sequence[_Arrived],
    missing: Sequence[MissingRank],
) -> IterationReport:
    reports = [each.report for each in arrived]
    unresolved = sum(each.rollouts for each in missing)
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
        final=not missing,
        coverage=coverage,
        metrics=reduce(RolloutMeter.merged, meters, RolloutMeter()).metrics,
        seconds=max((report.seconds for report in reports), default=0.0),
        trajectories=paths.trajectories.name,
        missing_ranks=tuple(each.rank for each in missing),
    )


def _write(paths: IterationPaths, report: IterationReport, arrived: Sequence[_Arrived]) -> None:
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
        "agent": _agent(arrived),
    }
    with TorchDraft(paths.trajectories) as draft:
        draft.save(metadata, _fragments(arrived))
    write_report(paths.metrics, report)


def _agent(arrived: Sequence[_Arrived]) -> object:
    """Who acted: the same on all ranks."""
    if not arrived:
        return {}
    with TorchFile(arrived[0].trajectories) as file:
        return file.metadata.get("agent", {})


def _fragments(arrived: Sequence[_Arrived]) -> Iterator[bytes]:
    for each in arrived:
        with TorchFile(each.trajectories) as file:
            yield from file.fragments()


def _after(error: TorchFileError, standing: Standing, sample: Sample) -> Standing:
    """Where a rank stands after a file was found damaged."""
    if isinstance(standing, _Arrived) and standing.trajectories == error.path:
        return _missing(sample, standing.rank, str(error))
    return standing
