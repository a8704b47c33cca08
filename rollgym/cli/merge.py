"""`rollgym merge`: one run out of its shards and copies."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from rollgym.cli.run_directory import read_run
from rollgym.cli.status import print_status
from rollgym.store import merge_runs


def configure(parser: ArgumentParser) -> None:
    parser.description = (
        "Merge run directories, with all the shards in each, into a new one. They must be parts or "
        "copies of one run. The result does not depend on their order, and nothing counts twice."
    )
    parser.add_argument("sources", metavar="SOURCE", nargs="+", type=Path, help="a run's directory")
    parser.add_argument(
        "--into", metavar="DIR", type=Path, required=True, help="where to; must not exist yet"
    )


def run(arguments: Namespace) -> int:
    report = merge_runs(arguments.sources, arguments.into)
    print(f"merged {report}")
    print_status(arguments.into, read_run(arguments.into))
    return 0
