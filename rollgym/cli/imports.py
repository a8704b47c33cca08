"""`rollgym import`: rollouts from trajectories of other programs (ATIF)."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from rollgym.export.imported import import_atif


def configure(parser: ArgumentParser) -> None:
    parser.description = (
        "Write a file of rollouts from trajectories of ATIF, the format of Harbor and of other "
        "agents. All commands read such a file: export, profile, view. Rewards are those in the "
        "trajectories, or in result.json of Harbor's trials; a trajectory without one is left out."
    )
    parser.add_argument(
        "sources",
        metavar="TRAJECTORIES",
        nargs="+",
        type=Path,
        help="a .json file of one trajectory, a .jsonl file with one on each line, or a folder in "
        "which every trajectory.json is read",
    )
    parser.add_argument(
        "--output",
        metavar="OUT",
        type=Path,
        required=True,
        help=".jsonl file of rollouts to write; an existing one is replaced",
    )


def run(arguments: Namespace) -> int:
    from rollgym.cli.summary import format_count  # noqa: PLC0415 - --help answers at once

    report = import_atif(arguments.sources, arguments.output)
    rollouts, tasks = format_count(report.rollouts, "rollout"), format_count(report.tasks, "task")
    print(f"wrote {rollouts} of {tasks} to {arguments.output}")
    if report.left_out:
        reasons = ", ".join(f"{count} {reason}" for reason, count in report.left_out.items())
        print(f"trajectories left out: {reasons}")
    return 0
