"""`rollgym serve-rollouts`: rollouts in groups for a trainer, collected without an end.

The command is that of `rollgym collect`, except that its tasks are drawn from the dataset for as
long as it runs. A trainer takes the groups over HTTP.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import msgspec

from rollgym.cli.agent_command import AgentCommand, prepare_agents
from rollgym.cli.collection import (
    connected,
    file_lines,
    final_metrics,
    print_notes,
    reconciled_files,
    removed_if_refused,
    require_safe_output,
    working,
)
from rollgym.cli.flags import model_help
from rollgym.cli.found_configs import read_command
from rollgym.cli.listening import listening_errors, listening_token
from rollgym.cli.options import rollout_help
from rollgym.cli.pool_settings import ServeSettings
from rollgym.cli.process import relative_path, say_beside, say_error
from rollgym.cli.summary import ResumeOptions, format_count, summary_lines
from rollgym.cluster.ray_metrics import RayMetrics
from rollgym.ctl import control_socket
from rollgym.engine import Control, Coverage, ExitStatus, Observer
from rollgym.engine import run as run_loop
from rollgym.monitor import ProgressObserver, open_tracing
from rollgym.pool import RolloutPool, open_pool_run
from rollgym.pool.server import PoolServer
from rollgym.rollouts.files import RolloutFiles
from rollgym.rollouts.output_row import output_row
from rollgym.rollouts.paths import RolloutPaths
from rollgym.rollouts.rows import RepeatSeeds
from rollgym.servers.access import NAMED_BY_OPTION
from rollgym.servers.http_server import listening
from rollgym.store import RunStore, StorageError, write_derived

TAKES_FLAGS = True
REPORT = "pool.json"
REPORT_INTERVAL = 10
"""Seconds between two versions of the report."""
EXAMPLE = (
    "rollgym serve-rollouts --agent mcqa_simple_agent --input tasks.jsonl "
    "--output results/pool.jsonl --model-url http://127.0.0.1:8000/v1 --model Qwen/Qwen3-8B"
)
_USAGE = """
usage: rollgym serve-rollouts --input FILE --output FILE [--OPTION VALUE …] [+OPTION=VALUE …]

Collect rollouts in groups, without an end, for a trainer that takes them over
HTTP. Rows are drawn from the input in epochs. A group has the rollouts of one
drawn row. A trainer takes finished groups, acknowledges them, and says when the
policy has a new version:

  POST /groups/next  {"trainer": "a", "max": 4, "wait": 30}
  POST /groups/ack   {"trainer": "a", "ids": ["g17"]}
  POST /policy       {"version": "4"}
  GET  /status

A group that is not acknowledged is delivered again. When trainers are slow, no
further groups are started. Ctrl-C finishes the running rollouts and stops; a
second Ctrl-C stops at once. The same command again continues: what was finished
and not acknowledged is delivered then.

Servers, agents and the model are given as for `rollgym collect`.
"""


def help_text() -> str:
    return rollout_help(_USAGE, ServeSettings, EXAMPLE, model_help())


def run(arguments: Sequence[str]) -> int:
    settings, configuration, names = read_command(ServeSettings, arguments, EXAMPLE)
    token = listening_token(settings.host, settings.token_env)
    command = prepare_agents(settings, configuration, names)
    options = ResumeOptions.of(names)
    paths = RolloutPaths.of(settings.output_jsonl_fpath)
    require_safe_output(paths, settings, options)
    groups = f"groups of {format_count(settings.group_size, 'rollout')}"
    rows = format_count(len(command.inputs), "row")
    print(f"{groups} of {rows} into {relative_path(paths.output)}", file=sys.stderr)
    if settings.dry_run:
        print("Dry run: everything was checked, and nothing was started.", flush=True)
        return 0
    with (
        removed_if_refused(paths),
        ProgressObserver(sys.stderr, endless=True) as progress,
        open_pool_run(
            paths.run,
            command.inputs,
            settings.pool,
            config=command.config,
            seed=settings.seed,
            force_new_run=not settings.resume,
            replay=progress.metrics.replay,
            advice=options.advice,
        ) as store,
    ):
        with reconciled_files(store, paths, resume=settings.resume) as files:
            serving = _Serving(
                command, settings, store=store, files=files, progress=progress, token=token
            )
            coverage, status = run_loop(serving.serve())
        metrics = final_metrics(progress, coverage, store)
    block, *lines = summary_lines(metrics)
    print(block, flush=True)
    status_code, ending = _ending(coverage)
    say_beside("\n".join([*lines, *file_lines(paths), *report_lines(status), ending]))
    return status_code


def _ending(coverage: Coverage) -> tuple[ExitStatus, str]:
    """The exit status, and what it means: a pool that was stopped by a person is complete."""
    again = "The same command continues it."
    if coverage.stopped:
        return ExitStatus.STOPPED, f"exit status 8: stopped: {coverage.stopped}. {again}"
    return ExitStatus.COMPLETE, f"exit status 0: the pool was ended. {again}"


class _Serving:
    """One process of the command, from the start of its servers to the last group."""

    def __init__(
        self,
        command: AgentCommand,
        settings: ServeSettings,
        *,
        store: RunStore,
        files: RolloutFiles,
        progress: ProgressObserver,
        token: str | None,
    ) -> None:
        self._command = command
        self._settings = settings
        self._store = store
        self._files = files
        self._progress = progress
        self._token = token

    async def serve(self) -> tuple[Coverage, dict[str, Any]]:
        settings, store, files = self._settings, self._store, self._files
        observers: list[Observer] = [files, self._progress]
        if settings.cluster and settings.cluster.is_ray:
            observers.append(RayMetrics())
        if settings.otel_endpoint:
            observers.append(open_tracing(settings.otel_endpoint, store.manifest.run_id))
        command, control = self._command, Control()
        async with (
            control_socket(store, control, lambda note: print_notes([note])),
            connected(store, command.servers) as servers,
        ):
            async with working(servers, store, command.make_worker) as (worker, stop):
                pool = RolloutPool(
                    store,
                    command.inputs,
                    worker,
                    settings.pool,
                    policy=settings.policy,
                    observers=observers,
                    stop=stop,
                    control=control,
                    row_of=partial(output_row, seeds=RepeatSeeds.of(store.manifest)),
                )
                async with pool, self._listening(pool):
                    coverage = await pool.ended()
                    status = pool.status()
            missed = files.name in coverage.dropped_events
            await asyncio.to_thread(files.finish, missed=missed)
            await asyncio.to_thread(files.write_materialized_inputs)
        return coverage, status

    @asynccontextmanager
    async def _listening(self, pool: RolloutPool) -> AsyncIterator[None]:
        """Answer trainers, and keep the report up to date. Raises StartError."""
        host, port = self._settings.host, self._settings.port
        pool_server = PoolServer(pool)
        server = listening(pool_server, host, port, self._token, sent_as=NAMED_BY_OPTION)
        with listening_errors("the pool", host, port):
            bound = await server.__aenter__()
        reporting = asyncio.create_task(self._report(pool))
        say_error(f"The pool is ready at http://{host}:{bound} until Ctrl-C")
        try:
            yield
        finally:
            reporting.cancel()
            await server.__aexit__(None, None, None)
            await asyncio.to_thread(self._write_report, pool.status())

    async def _report(self, pool: RolloutPool) -> None:
        """Show the state of the pool in the progress every second, and write it less often."""
        seconds = 0
        while True:
            status = pool.status()
            self._progress.further = _items(status)
            if seconds % REPORT_INTERVAL == 0:
                await asyncio.to_thread(self._write_report, status)
            await asyncio.sleep(1.0)
            seconds += 1

    def _write_report(self, status: dict[str, Any]) -> None:
        data = msgspec.json.format(msgspec.json.encode(status), indent=2) + b"\n"
        try:
            write_derived(self._store.directory / REPORT, [data])
        except StorageError as error:  # it is only a report
            say_error(f"note: {error}")


def _items(status: dict[str, Any]) -> tuple[str, ...]:
    """What the progress shows of a pool."""
    groups, slots = status["groups"], status["slots"]
    items = [
        f"policy {status['policy_version']}",
        f"groups: {groups['acknowledged']} acknowledged",
        f"{groups['leased']} leased",
        f"{groups['undelivered']} waiting",
    ]
    if dropped := sum(groups["dropped"].values()):
        items.append(f"{dropped} dropped")
    if slots["busy"] is not None:
        items.append(f"slots {100 * slots['busy']:.0f} % busy")
    if status["holding"]:
        items.append(f"holding: {status['holding']}")
    return tuple(items)


def report_lines(status: dict[str, Any]) -> list[str]:
    """The summary of a pool: its groups, and what the trainer did not get."""
    groups = status["groups"]
    waiting = groups["undelivered"] + groups["leased"]
    more = f", {waiting} finished for the next trainer" if waiting else ""
    lines = [f"groups: {groups['acknowledged']} acknowledged{more}"]
    if groups["dropped"]:
        reasons = ", ".join(f"{count} x {name}" for name, count in groups["dropped"].items())
        lines.append(f"dropped groups: {reasons}")
        for name in ("kept", "dropped"):
            numbers = status[name]
            lines.append(
                f"  {name}: {numbers['rollouts']} rollouts, failure rate "
                f"{_shown(numbers['failure_rate'])}, mean reward {_shown(numbers['mean_reward'])}, "
                f"mean output tokens {_shown(numbers['mean_output_tokens'])}"
            )
    return lines


def _shown(number: float | None) -> str:
    return "-" if number is None else f"{number:.4g}"
