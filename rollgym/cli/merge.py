"""`rollgym merge`: merge the shards and copies of a run into one."""

import asyncio
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path

from rollgym.cli.status import print_status, read_run, require_manifest, run_directory
from rollgym.rollouts.aggregate import AggregateFile
from rollgym.rollouts.files import RolloutFiles
from rollgym.rollouts.paths import JSONL, RolloutPaths
from rollgym.rollouts.rows import RepeatSeeds
from rollgym.store import RefusedError, merge_runs


def configure(parser: ArgumentParser) -> None:
    parser.description = (
        "Merge runs, with all the shards in each, into a new run. They must be parts or copies of "
        "one run. The result does not depend on their order, and no rollout counts twice."
    )
    parser.add_argument(
        "sources",
        metavar="RUN",
        nargs="+",
        type=run_directory,
        help="a run directory, or the .jsonl file of its rollouts",
    )
    parser.add_argument(
        "--into",
        metavar="TARGET",
        type=Path,
        required=True,
        help="a new directory, or a new .jsonl file for the rollouts with their run beside it",
    )


def run(arguments: Namespace) -> int:
    target: Path = arguments.into
    # The files of several shards name one run.
    sources = list(dict.fromkeys(arguments.sources))
    if target.suffix != JSONL:
        print(f"merged {merge_runs(sources, target)}")
        print_status(target, read_run(target))
        return 0
    paths = RolloutPaths.of(target)
    merge_rollouts(sources, paths)
    print_status(paths.run, read_run(paths.run))
    return 0


def merge_rollouts(sources: Sequence[Path], paths: RolloutPaths) -> None:
    """Merge the runs, and derive the files from the merged run. Raises StoreError."""
    present = [path for path in paths.derived if path.exists()]
    if present:
        raise RefusedError(f"{present[0]} exists: give --into a new name")
    print(f"merged {merge_runs(sources, paths.run)}")
    seeds = RepeatSeeds.of(require_manifest(paths.run))
    with RolloutFiles(paths, paths.run, lambda _: True, seeds) as files:
        files.reconcile()
        files.write_materialized_inputs()
    metrics = AggregateFile(paths.run, lambda _: True)
    asyncio.run(metrics.write(paths.aggregate_metrics, clients=None))
    print(f"rollouts in {paths.output}")
