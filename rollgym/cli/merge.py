"""`rollgym merge`: one run out of its shards and copies."""

import asyncio
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path

from rollgym.cli.run_directory import read_run, run_directory
from rollgym.cli.status import print_status
from rollgym.rollouts.aggregate import RunNumbers
from rollgym.rollouts.files import RolloutFiles
from rollgym.rollouts.paths import RolloutPaths
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
    directory = run_directory(str(target))
    if directory == target:
        print(f"merged {merge_runs(arguments.sources, target)}")
    else:
        merge_rollouts(arguments.sources, RolloutPaths.of(target))
    print_status(directory, read_run(directory))
    return 0


def merge_rollouts(sources: Sequence[Path], paths: RolloutPaths) -> None:
    """Merge the runs, and make the files from the one that comes of it. Raises StoreError."""
    present = [path for path in paths.derived if path.exists()]
    if present:
        raise RefusedError(f"{present[0]} exists: give --into a name that is not taken")
    print(f"merged {merge_runs(sources, paths.run)}")
    with RolloutFiles(paths, paths.run, lambda _: True) as files:
        files.put_right()
    numbers = RunNumbers(paths.run, lambda _: True)
    asyncio.run(numbers.write(paths.aggregate_metrics, clients=None))
    print(f"rollouts in {paths.output}")
