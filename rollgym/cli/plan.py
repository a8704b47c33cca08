"""`+dry_run`: what a collection would do, checked as far as that is possible without starting it.

Whether a run can be continued is tried on a copy of its manifest and inputs, so that the checks are
those of the collection itself.
"""

import shutil
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rollgym.cli.rollout_settings import CompleteSettings
from rollgym.cli.summary import ResumeOptions, format_count
from rollgym.monitor import recount
from rollgym.rollouts.inputs import PreparedInputs
from rollgym.rollouts.paths import RolloutPaths
from rollgym.rollouts.servers import CollectionServers
from rollgym.rollouts.stored_rollouts import StoredRollouts
from rollgym.store import WHOLE, RefusedError, inputs_path, open_run, read_manifest
from rollgym.store.layout import MANIFEST

TaskSource = PreparedInputs | StoredRollouts
"""The checked tasks of a command."""


def show_plan(
    source: TaskSource,
    settings: CompleteSettings,
    servers: CollectionServers,
    config: Mapping[str, Any],
    *,
    options: ResumeOptions,
) -> int:
    """Print what would run; the exit status. Raises StoreError where it would be refused."""
    paths = RolloutPaths.of(settings.output_jsonl_fpath, settings.shard or WHOLE)
    parallel = settings.num_samples_in_parallel or "adaptive"
    rollouts = f"{format_count(source.rollouts, 'rollout')} of {format_count(source.tasks, 'task')}"
    lines = [
        "Dry run: everything was checked, and nothing was started.",
        f"agents:      {', '.join(sorted(source.agents))}",
        f"servers:     {', '.join(servers.names)} ({_place(settings)})",
        f"rollouts:    {rollouts}, concurrency {parallel}",
        f"output:      {paths.output}",
        f"run:         {_run(source, settings, config, paths, options)}",
    ]
    print("\n".join(lines), flush=True)
    return 0


def _place(settings: CompleteSettings) -> str:
    return "run by this command" if settings.config_paths else "of ng_run"


def _run(
    source: TaskSource,
    settings: CompleteSettings,
    config: Mapping[str, Any],
    paths: RolloutPaths,
    options: ResumeOptions,
) -> str:
    existing = read_manifest(paths.run, options.advice)
    if existing is None:
        return f"{paths.run} is new"
    if not settings.resume:
        return f"{paths.run} is renamed, and a new one begins"
    with TemporaryDirectory() as temporary:
        copy = Path(temporary) / paths.run.name
        copy.mkdir()
        for path in (paths.run / MANIFEST, inputs_path(paths.run)):
            if path.exists():
                shutil.copy(path, copy)
        try:
            with open_run(
                copy,
                source,
                config=config,
                seed=settings.seed,
                shard=settings.shard or WHOLE,
                advice=options.advice,
            ) as store:
                expected, holds = store.inputs.expected, store.inputs.holds
        except RefusedError as error:
            raise RefusedError(str(error).replace(str(copy), str(paths.run))) from error
        counts = recount(paths.run, holds).summary().counts
    done = counts.completed + counts.failed + counts.omitted
    return f"{paths.run} continues: {done} of {expected} rollouts have an outcome"
