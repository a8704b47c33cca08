"""Running a collection from a command: open the run, show it, sum it up, and never lie about it."""

import asyncio
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Protocol

import msgspec

from rollgym.cli.summary import DASHED, Flags, summary_lines, verdict_lines
from rollgym.engine import Coverage, Observer, Policy, Worker, collect, run
from rollgym.metrics import Summary
from rollgym.monitor import LiveMetrics, ProgressObserver, recount
from rollgym.records import Task
from rollgym.store import WHOLE, RunStore, Shard, Status, open_run


class View(Observer, Protocol):
    """A file, or anything else, that is kept up with a run's journal."""

    def finish(self, *, missed: bool) -> None:
        """Make it what the journal says; `missed` tells that it did not get every event."""


class Job(Protocol):
    """What differs between the commands that collect."""

    @property
    def flags(self) -> Flags:
        """How the command is told to run things again."""

    def views(self, store: RunStore) -> AbstractContextManager[Sequence[View]]:
        """What is kept up with the run while it is open."""

    def working(self, store: RunStore) -> AbstractAsyncContextManager[Worker]:
        """The worker, with whatever has to run beside it.

        The end of the block comes after the collection, when all records are on disk.
        """

    def hints(self, store: RunStore) -> Iterable[str]:
        """Lines for the summary about what can be done with the files."""


class BareJob:
    """A worker that needs nothing beside it, and makes no files but the run's own."""

    flags = DASHED

    def __init__(self, worker: Worker, hints: Callable[[RunStore], Iterable[str]]) -> None:
        self._worker = worker
        self.hints = hints

    def views(self, _: RunStore) -> AbstractContextManager[Sequence[View]]:
        return nullcontext(())

    def working(self, _: RunStore) -> AbstractAsyncContextManager[Worker]:
        return nullcontext(self._worker)


class RunRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Which run, and what to do with one that is there; see `open_run`."""

    directory: Path
    config: Mapping[str, Any] = {}
    seed: int = 0
    shard: Shard = WHOLE
    reopen: frozenset[Status] = frozenset()
    force_new_run: bool = False


def run_collection(request: RunRequest, tasks: Iterable[Task], job: Job, policy: Policy) -> int:
    """Collect, with the progress on stderr and the summary on stdout; returns the exit status.

    Raises StoreError, EngineError, KeyboardInterrupt, and what starting the worker raises.
    """
    with (
        ProgressObserver(sys.stderr) as progress,
        _opened(request, tasks, progress.metrics, job.flags) as store,
        job.views(store) as views,
    ):
        if store.torn:
            print(store.torn, file=sys.stderr)
        coverage = run(_collect(store, job, policy, progress, views))
        metrics = _final_metrics(progress, coverage, store)
    _print_end(metrics, coverage, job, store)
    return coverage.exit_status


async def _collect(
    store: RunStore, job: Job, policy: Policy, progress: ProgressObserver, views: Sequence[View]
) -> Coverage:
    async with job.working(store) as worker:
        coverage = await collect(store.inputs, worker, store, policy, [progress, *views])
        for view in views:
            missed = view.name in coverage.dropped_events
            await asyncio.to_thread(view.finish, missed=missed)
        return coverage


def _opened(
    request: RunRequest, tasks: Iterable[Task], metrics: LiveMetrics, flags: Flags
) -> RunStore:
    return open_run(
        request.directory,
        tasks,
        config=request.config,
        seed=request.seed,
        shard=request.shard,
        reopen=request.reopen,
        force_new_run=request.force_new_run,
        replay=metrics.replay,
        advice=flags.advice,
    )


def _final_metrics(progress: ProgressObserver, coverage: Coverage, store: RunStore) -> LiveMetrics:
    """The live numbers if they are known to be whole, else those of the files.

    They are not whole when events were dropped, when the observer was left behind, and when other
    journals of the run hold outcomes that this process did not see.
    """
    metrics = progress.metrics
    missed = not metrics.finished or progress.name in coverage.dropped_events
    if not missed and _agree(metrics.summary(), coverage):
        return metrics
    return recount(store.directory, store.inputs.holds)


def _agree(summary: Summary, coverage: Coverage) -> bool:
    counts = summary.counts
    counted = (counts.completed, counts.failed, counts.omitted, summary.groups.complete)
    covered = (coverage.completed, coverage.failed, coverage.omitted, coverage.groups_complete)
    return counted == covered


def _print_end(metrics: LiveMetrics, coverage: Coverage, job: Job, store: RunStore) -> None:
    for line in summary_lines(metrics):
        print(line)
    for hint in job.hints(store):
        print(hint)
    if coverage.abandoned:
        print(_abandoned(coverage.abandoned))
    if coverage.resumed == coverage.expected and not coverage.attempts:
        print("everything was there already: nothing had to run")
    meaning, advice = verdict_lines(coverage, job.flags)
    print(coverage.describe_tasks())
    print(coverage)
    print(f"exit status {coverage.exit_status:d}: {meaning}")
    print(f"next: {advice}", flush=True)


def _abandoned(count: int) -> str:
    if count == 1:
        return "1 worker ignored its cancellation and was left behind"
    return f"{count} workers ignored their cancellation and were left behind"
