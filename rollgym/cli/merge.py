"""`rollgym merge`: one run out of its shards and copies."""

import asyncio
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path

from rollgym.cli.run_directory import read_run, require_manifest, run_directory
from rollgym.cli.status import print_status
from rollgym.rollouts.aggregate import RunNumbers
from rollgym.rollouts.files import RolloutFiles
from rollgym.rollouts.paths import JSONL, RolloutPaths
from rollgym.rollouts.sampling import first_seed_of
from rollgym.store import RefusedError, merge_runs


def configure(parser: ArgumentParser) -> None:
    parser.description = (
        "Merge runs, with all the shards in each, into a new one. They must be parts or copies of "
        "one run. The result does not depend on their order, and nothing counts twice."
    )
    parser.add_argument(
        "sources",
        metavar="RUN",
        nargs="+",
        type=run_directory,
        help="a run's directory, or the rollouts' .jsonl",
    )
    parser.add_argument(
        "--into",
        metavar="TARGET",
        type=Path,
        required=True,
        help="a new directory, or a new .jsonl for the rollouts with their run beside it",
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
    """Merge the runs, and make the files from the one that comes of it. Raises StoreError."""
    present = [path for path in paths.derived if path.exists()]
    if present:
        raise RefusedError(f"{present[0]} exists: give --into a name that is not taken")
    print(f"merged {merge_runs(sources, paths.run)}")
    first_seed = first_seed_of(require_manifest(paths.run))
    with RolloutFiles(paths, paths.run, lambda _: True, first_seed) as files:
        files.put_right()
        files.write_materialized_inputs()
    numbers = RunNumbers(paths.run, lambda _: True)
    asyncio.run(numbers.write(paths.aggregate_metrics, clients=None))
    print(f"rollouts in {paths.output}")
