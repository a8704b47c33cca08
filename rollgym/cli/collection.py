"""Running a collection from a command: the store is opened, rollouts are collected into files, and
the summary is printed.

The progress goes to standard error, the summary to standard output. The numbers of the summary are
those that were counted live when they are known to be complete, else those of the journal.
"""

import asyncio
import logging
import shlex
import shutil
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from rollgym.cli.plan import TaskSource, show_plan
from rollgym.cli.process import relative_path, say_beside
from rollgym.cli.rollout_settings import CompleteSettings, RolloutSettings
from rollgym.cli.summary import (
    OVERRIDES,
    ResumeOptions,
    explain_coverage,
    format_count,
    summary_lines,
)
from rollgym.ctl import control_socket
from rollgym.engine import (
    Control,
    Coverage,
    Observer,
    Stop,
    StopLevel,
    Worker,
    collect,
    run,
    stopping_on_signals,
)
from rollgym.metrics import Summary
from rollgym.monitor import (
    LiveMetrics,
    ProgressObserver,
    open_tracing,
    printable_line,
    recount,
)
from rollgym.records import FailureKind
from rollgym.rollouts.aggregate import AggregateFile
from rollgym.rollouts.files import RolloutFiles
from rollgym.rollouts.paths import RolloutPaths, rename_old_files
from rollgym.rollouts.preflight import PreflightError
from rollgym.rollouts.rows import RepeatSeeds
from rollgym.rollouts.servers import Clients, CollectionServers
from rollgym.servers.launch.addresses import Directory
from rollgym.servers.launch.fleet import Fleet
from rollgym.servers.launch.logs import JsonLines
from rollgym.servers.launch.records import ServerLostError, StartError
from rollgym.store import WHOLE, RefusedError, RunStore, Shard, Status, open_run
from rollgym.store.layout import journal_paths

SERVER_LOG = "servers.log"
NOTE_LIMIT = 1_000
_REQUESTS = logging.getLogger("rollgym.servers")


class Collecting(NamedTuple):
    """What a worker may use: the servers, which run, the open run, and the request to stop."""

    servers: Fleet | Directory
    store: RunStore
    stop: Stop


MakeWorker = Callable[[Collecting], AbstractAsyncContextManager[Worker]]
"""Makes the worker of a collection, for a block. It may refuse to."""


def run_collection(
    source: TaskSource,
    settings: CompleteSettings,
    servers: CollectionServers,
    config: Mapping[str, Any],
    make_worker: MakeWorker,
    *,
    options: ResumeOptions = OVERRIDES,
    observed_by: Sequence[Observer] = (),
) -> int:
    """Collect the tasks of a source into the files that the settings name; the exit status.

    `config` is the result-relevant configuration. `make_worker` is called when the servers run; it
    may raise PreflightError, and then a run that was just made is removed, as where a server does
    not start. `options` is how the
    user writes options. Raises StoreError, EngineError, KeyboardInterrupt, and what starting the
    servers raises.
    """
    shard = settings.shard or WHOLE
    paths = RolloutPaths.of(settings.output_jsonl_fpath, shard)
    require_safe_output(paths, settings, options)
    _announce(source, paths, settings)
    if settings.dry_run:
        return show_plan(source, settings, servers, config, options=options)
    with (
        removed_if_refused(paths, shard),
        ProgressObserver(sys.stderr) as progress,
        open_run(
            paths.run,
            source,
            config=config,
            seed=settings.seed,
            shard=shard,
            reopen=settings.reopen,
            force_new_run=not settings.resume,
            replay=progress.metrics.replay,
            advice=options.advice,
        ) as store,
    ):
        with reconciled_files(store, paths, resume=settings.resume) as files:
            files.write_materialized_inputs(repeats=settings.materialize_repeats)
            observers: list[Observer] = [progress, *observed_by]
            if settings.otel_endpoint:
                observers.append(open_tracing(settings.otel_endpoint, store.manifest.run_id))
            work = _collect(store, settings, servers, make_worker, (files, *observers))
            coverage = run(work)
        metrics = final_metrics(progress, coverage, store)
    print_summary(metrics, coverage, paths, options)
    return coverage.exit_status


@contextmanager
def removed_if_refused(paths: RolloutPaths, shard: Shard = WHOLE) -> Iterator[None]:
    """Leave nothing of a new run that was refused before its first rollout.

    Its identity has the settings that were refused, so the corrected command could not continue it.
    """
    is_new = shard == WHOLE and not paths.run.exists()
    try:
        yield
    except (PreflightError, StartError):
        if is_new and not any(path.stat().st_size for path in journal_paths(paths.run)):
            shutil.rmtree(paths.run, ignore_errors=True)
            for path in paths.derived:
                path.unlink(missing_ok=True)
        raise


@contextmanager
def reconciled_files(
    store: RunStore, paths: RolloutPaths, *, resume: bool
) -> Iterator[RolloutFiles]:
    """The files of an opened run, in step with its journal; prints what there is to say about it.

    Without `resume`, files of an earlier run are renamed.
    """
    for note in opening_notes(store):
        print(note, file=sys.stderr)
    if not resume:
        rename_old_files(paths)
    seeds = RepeatSeeds.of(store.manifest)
    with RolloutFiles(paths, store.directory, store.inputs.holds, seeds) as files:
        files.reconcile()
        yield files


def require_safe_output(
    paths: RolloutPaths, settings: RolloutSettings, options: ResumeOptions
) -> None:
    """Raises RefusedError where a file would be overwritten that does not belong to the run."""
    source = settings.input_jsonl_fpath.resolve()
    if any(source == path.resolve() for path in paths.derived):
        raise RefusedError(
            f"the input {settings.input_jsonl_fpath} is a file that this collection would write: "
            f"give {options.output} another name"
        )
    for path in paths.derived:
        if path.exists() and not path.is_file():
            raise RefusedError(f"{path} exists and is not a file. Nothing was changed.")
        if settings.resume and not paths.run.exists() and path.exists() and path.stat().st_size:
            raise RefusedError(
                f"{path} exists, but its run {paths.run} does not. Nothing was changed. Give "
                f"another {options.output}, or {options.new_run} to rename the file and start a "
                "new run."
            )


async def _collect(
    store: RunStore,
    settings: CompleteSettings,
    servers: CollectionServers,
    make_worker: MakeWorker,
    observers: tuple[RolloutFiles, *tuple[Observer, ...]],
) -> Coverage:
    files, control = observers[0], Control()
    async with (
        control_socket(store, control, lambda note: print_notes([note])),
        connected(store, servers) as directory,
    ):
        async with working(directory, store, make_worker) as (worker, stop):
            coverage = await collect(
                store.inputs,
                worker,
                store,
                settings.policy,
                observers,
                stop=stop,
                control=control,
            )
        missed = files.name in coverage.dropped_events
        await asyncio.to_thread(files.finish, missed=missed)
        notes = []
        if not settings.disable_aggregation:
            notes = await _write_aggregate_metrics(store, servers, directory.client, files)
    print_notes(notes)
    return coverage


@asynccontextmanager
async def connected(
    store: RunStore, servers: CollectionServers
) -> AsyncIterator[Fleet | Directory]:
    """The servers, which run during the block; their failed requests are logged beside the run."""
    with _requests_logged_to(store.directory / SERVER_LOG):
        async with servers.connect() as directory:
            yield directory


@asynccontextmanager
async def working(
    servers: Fleet | Directory, store: RunStore, make_worker: MakeWorker
) -> AsyncIterator[tuple[Worker, Stop]]:
    """A worker, and the request to stop: by Ctrl-C, or when a server is lost."""
    stop = Stop()
    async with make_worker(Collecting(servers, store, stop)) as worker:
        with stopping_on_signals(stop.request, requests=StopLevel.NOW, hangup=False):
            watching = asyncio.ensure_future(_watch(servers, stop))
            try:
                yield worker, stop
            finally:
                watching.cancel()
                await asyncio.wait((watching,))


def print_notes(notes: Iterable[str]) -> None:
    for note in notes:
        print(printable_line(f"note: {note}", limit=NOTE_LIMIT), file=sys.stderr)


async def _watch(servers: Fleet | Directory, stop: Stop) -> None:
    """Stop the collection when a server has died more often than it may be restarted."""
    try:
        await servers.until_lost()
    except ServerLostError as loss:
        reason = printable_line(str(loss), limit=NOTE_LIMIT)
        stop.give_up(f"{reason}. What to do: find out why the server dies, or raise its `restarts`")


async def _write_aggregate_metrics(
    store: RunStore, servers: CollectionServers, clients: Clients, files: RolloutFiles
) -> list[str]:
    default_only = servers.without_own_metrics(servers.agents)
    ask = clients if len(default_only) < len(servers.agents) else None
    file = AggregateFile(store.directory, store.inputs.holds)
    return await file.write(files.paths.aggregate_metrics, ask, default_only, files.metrics)


@contextmanager
def _requests_logged_to(path: Path) -> Iterator[None]:
    """Log failed requests to this file, which is made with the first of them.

    On a terminal these lines would drown the progress. What the servers log besides, such as an
    endpoint that cannot be reached, stays on standard error.
    """
    handler = logging.FileHandler(path, encoding="utf-8", errors="backslashreplace", delay=True)
    handler.setFormatter(JsonLines())

    def divert(record: logging.LogRecord) -> bool:
        handler.handle(record)
        return False

    _REQUESTS.addFilter(divert)
    try:
        yield
    finally:
        _REQUESTS.removeFilter(divert)
        handler.close()


def final_metrics(progress: ProgressObserver, coverage: Coverage, store: RunStore) -> LiveMetrics:
    """The live numbers if they are known to be complete, else those of the files.

    They are incomplete when events were dropped, when the observer was abandoned, and when other
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


def _announce(source: TaskSource, paths: RolloutPaths, settings: CompleteSettings) -> None:
    counts = f"{format_count(source.tasks, 'task')}, {format_count(source.rollouts, 'rollout')}"
    part = f", of which shard {settings.shard}," if settings.shard else ""
    print(f"{counts}{part} into {relative_path(paths.output)}", file=sys.stderr)


def opening_notes(store: RunStore) -> Iterator[str]:
    """What there is to say about a run that was continued."""
    if store.torn:
        yield str(store.torn)
    if store.grown_from is not None:
        before, after = store.grown_from, store.manifest.identity.inputs
        yield (
            f"the run grows from {format_count(before.rollouts, 'rollout')} of "
            f"{format_count(before.tasks, 'task')} to {after.rollouts} of {after.tasks}"
        )
    progress = store.progress
    done = sum(progress.count(status) for status in Status) - progress.reopened
    if done:
        yield f"continuing: {done} of {store.inputs.expected} done"


def print_summary(
    metrics: LiveMetrics, coverage: Coverage, paths: RolloutPaths, options: ResumeOptions
) -> None:
    """Print the block of JSON to standard output; the rest is beside it on a terminal only."""
    summary = metrics.summary()
    meaning, advice = explain_coverage(coverage, options, summary.counts.successes)
    if FailureKind.VERIFIER in summary.failures_by_kind:
        advice += (
            f" `rollgym reverify +input_jsonl_fpath={relative_path(paths.failures)} …` scores "
            "those that only lack a verdict, without calling the model."
        )
    block, *lines = summary_lines(metrics)
    lines += [*file_lines(paths), *_coverage_notes(coverage)]
    lines += [coverage.describe_tasks(), str(coverage)]
    lines += [f"exit status {coverage.exit_status:d}: {meaning}", advice]
    print(block, flush=True)
    say_beside("\n".join(lines))


def file_lines(paths: RolloutPaths) -> Iterator[str]:
    yield f"rollouts:          {relative_path(paths.output)}"
    yield f"failed attempts:   {relative_path(paths.failures)}"
    yield f"inputs as sent:    {relative_path(paths.materialized_inputs)}"
    if paths.aggregate_metrics.exists():
        yield f"aggregate metrics: {relative_path(paths.aggregate_metrics)}"
    yield f"journal:           {relative_path(paths.run)}/"
    if (paths.run / SERVER_LOG).exists():
        yield f"failed requests:   {relative_path(paths.run / SERVER_LOG)}"
    yield f"look at them:      ng_viewer +jsonl_fpath={shlex.quote(relative_path(paths.output))}"


def _coverage_notes(coverage: Coverage) -> Iterable[str]:
    if coverage.abandoned == 1:
        yield "1 worker ignored its cancellation and was abandoned"
    elif coverage.abandoned:
        yield f"{coverage.abandoned} workers ignored their cancellation and were abandoned"
    if coverage.resumed == coverage.expected and not coverage.attempts:
        yield "all rollouts were collected before: nothing had to run"
