"""`rollgym status`: what a run amounts to, counted from its files.

Takes no lock, so it can be asked of a run that is being collected; the numbers are then those of
the records written so far.
"""

from argparse import ArgumentParser, Namespace
from pathlib import Path

import msgspec

from rollgym.cli.run_directory import RunOnDisk, read_run, run_directory
from rollgym.cli.summary import DASHED, OVERRIDES, summary_lines, verdict_lines
from rollgym.engine import ExitStatus
from rollgym.rollouts.paths import RUN_SUFFIX


def configure(parser: ArgumentParser) -> None:
    parser.description = (
        "Count a run from its files: the numbers that the collecting command printed, or would "
        "print now. Takes no lock, so the run may be going on."
    )
    parser.add_argument(
        "directory",
        metavar="RUN",
        type=run_directory,
        help="the run's directory, or the rollouts' .jsonl",
    )
    parser.add_argument("--json", action="store_true", help="every number, as one JSON object")


def run(arguments: Namespace) -> int:
    found = read_run(arguments.directory)
    if arguments.json:
        print(_as_json(found))
    else:
        print_status(arguments.directory, found)
    return 0


def print_status(directory: Path, found: RunOnDisk) -> None:
    """For people; also after a merge."""
    for line in summary_lines(found.metrics):
        print(line)
    print(f"run {found.manifest.run_id} of {found.manifest.created} in {directory}")
    flags = OVERRIDES if directory.name.endswith(RUN_SUFFIX) else DASHED
    meaning, advice = verdict_lines(found.coverage, flags)
    print(found.coverage.describe_tasks())
    print(found.coverage)
    print(meaning)
    if found.coverage.exit_status is not ExitStatus.COMPLETE:
        print(f"next: {advice}")


def _as_json(found: RunOnDisk) -> str:
    coverage = found.coverage
    counts = {
        name: getattr(coverage, name)
        for name in (
            "expected",
            "completed",
            "failed",
            "omitted",
            "unresolved",
            "groups",
            "groups_complete",
        )
    }
    status = {
        "run_id": found.manifest.run_id,
        "created": found.manifest.created,
        "seed": found.manifest.identity.seed,
        "coverage": counts,
        "exit_status": int(coverage.exit_status),
        "retried": found.metrics.retried,
        "summary": found.metrics.summary(),
        "failure_examples": {
            kind: {"task": example.key.task, "repeat": example.key.repeat, "detail": example.detail}
            for kind, example in sorted(found.metrics.examples.items())
        },
    }
    return msgspec.json.format(msgspec.json.encode(status), indent=2).decode()
