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
from collections.abc import Callable, Sequence
from functools import reduce
from itertools import chain

import msgspec

from rollgym.engine import ExitStatus
from rollgym.store import FileLock, RefusedError
from webgym.iteration.files import FORMAT_VERSION
from webgym.iteration.parts import (
    MissingRank,
    Part,
    Standing,
    earlier_part,
    find_earlier,
    has_part,
    look,
    missing_rank,
)
from webgym.iteration.paths import IterationPaths
from webgym.iteration.report import (
    IterationCoverage,
    IterationReport,
    write_report,
)
from webgym.iteration.sample import Sample
from webgym.trajectory.metrics import RolloutMeter
from webgym.trajectory.torch_file import TorchDraft, TorchFile, TorchFileError

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
