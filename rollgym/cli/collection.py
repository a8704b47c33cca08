"""Running a collection from a command: open the run, show it, sum it up, and never lie about it."""

import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from rollgym.cli.summary import summary_lines, verdict_lines
from rollgym.engine import Coverage, Policy, Worker, collect, run
from rollgym.metrics import Summary
from rollgym.monitor import LiveMetrics, ProgressObserver, recount
from rollgym.records import Task
from rollgym.store import WHOLE, RunStore, Shard, Status, open_run

Hints = Callable[[RunStore], Iterable[str]]


class RunRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Which run, and what to do with one that is there; see `open_run`."""

    directory: Path
    config: Mapping[str, Any] = {}
    seed: int = 0
    shard: Shard = WHOLE
    reopen: frozenset[Status] = frozenset()
    force_new_run: bool = False


def run_collection(
    request: RunRequest, tasks: Iterable[Task], worker: Worker, policy: Policy, hints: Hints
) -> int:
    """Collect, with the progress on stderr and the summary on stdout; returns the exit status.

    `hints` are lines for the summary about what can be done with the files. Raises StoreError,
    EngineError, KeyboardInterrupt.
    """
    with (
        ProgressObserver(sys.stderr) as progress,
        _opened(request, tasks, progress.metrics) as store,
    ):
        if store.torn:
            print(store.torn, file=sys.stderr)
        coverage = run(collect(store.inputs, worker, store, policy, [progress]))
        metrics = _final_metrics(progress, coverage, store)
    _print_end(metrics, coverage, hints(store))
    return coverage.exit_status


def _opened(request: RunRequest, tasks: Iterable[Task], metrics: LiveMetrics) -> RunStore:
    return open_run(
        request.directory,
        tasks,
        config=request.config,
        seed=request.seed,
        shard=request.shard,
        reopen=request.reopen,
        force_new_run=request.force_new_run,
        replay=metrics.replay,
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


def _print_end(metrics: LiveMetrics, coverage: Coverage, hints: Iterable[str]) -> None:
    for line in summary_lines(metrics):
        print(line)
    for hint in hints:
        print(hint)
    if coverage.abandoned:
        print(_abandoned(coverage.abandoned))
    if coverage.resumed == coverage.expected and not coverage.attempts:
        print("everything was there already: nothing had to run")
    meaning, advice = verdict_lines(coverage)
    print(coverage.groups_in_words())
    print(coverage)
    print(f"exit status {coverage.exit_status:d}: {meaning}")
    print(f"next: {advice}", flush=True)


def _abandoned(count: int) -> str:
    if count == 1:
        return "1 worker ignored its cancellation and was left behind"
    return f"{count} workers ignored their cancellation and were left behind"
