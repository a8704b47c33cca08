"""`rollgym status`: the coverage and the numbers of a run directory, counted from its files.

No lock is taken, so a run that is being collected can be read; the numbers are then those of the
records written so far. Servers have another command: `ng_status`.
"""

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from pathlib import Path

import msgspec

from rollgym.cli.look import look_data
from rollgym.cli.summary import COLLECTING, PYTHON, explain_coverage, summary_lines
from rollgym.engine import Coverage, ExitStatus, describe_time
from rollgym.monitor import LiveMetrics, coverage_of, printable_line, recount
from rollgym.rollouts.paths import JSONL, RUN_SUFFIX, RolloutPaths, run_beside
from rollgym.store import Manifest, ManifestError, read_changes, read_manifest

SHOWN_CHANGES = 20
_OUTCOMES = ("expected", "completed", "failed", "omitted", "unresolved")
_COVERAGE = (*_OUTCOMES, "groups", "groups_complete")


def configure(parser: ArgumentParser) -> None:
    parser.description = (
        "Show the numbers of a run, counted from its files. They are those that the collecting "
        "command prints at its end. The run may still be collecting. This command reads a run "
        "directory; ng_status lists the running servers."
    )
    parser.add_argument(
        "directory",
        metavar="RUN",
        type=run_directory,
        help="a run directory, or the .jsonl file of its rollouts",
    )
    parser.add_argument("--json", action="store_true", help="print every number as one JSON object")


def run(arguments: Namespace) -> int:
    found = read_run(arguments.directory)
    if arguments.json:
        print(_as_json(arguments.directory, found))
    else:
        print_status(arguments.directory, found)
    return 0


class RunOnDisk(msgspec.Struct, frozen=True):
    """What a run's files say, counted once."""

    manifest: Manifest
    metrics: LiveMetrics
    coverage: Coverage


def read_run(directory: Path) -> RunOnDisk:
    """Count a run, streaming. Raises RefusedError, StorageError."""
    manifest = require_manifest(directory)
    metrics = recount(directory)
    coverage = coverage_of(manifest.identity.inputs, metrics.summary())
    return RunOnDisk(manifest, metrics, coverage)


def run_directory(text: str) -> Path:
    """The run directory that an argument names, directly or by one of its output files."""
    path = Path(text)
    if path.suffix != JSONL:
        return path
    return run_beside(path) or RolloutPaths.of(path).run


def require_manifest(directory: Path) -> Manifest:
    """Raises ManifestError where the directory holds no run, or one that cannot be read."""
    if directory.is_file():
        raise ManifestError(
            f"{directory} is a file, not a run. Give the directory of a collected run, or the "
            ".jsonl file of its rollouts."
        )
    manifest = read_manifest(directory)
    if manifest is None:
        raise ManifestError(
            f"{directory} holds no run: manifest.json is missing. Give the directory of a "
            "collected run."
        )
    return manifest


def print_status(directory: Path, found: RunOnDisk) -> None:
    """Print the summary of a run."""
    options = COLLECTING if directory.name.endswith(RUN_SUFFIX) else PYTHON
    successes = found.metrics.summary().counts.successes
    meaning, advice = explain_coverage(found.coverage, options, successes)
    for line in summary_lines(found.metrics):
        print(line)
    print(f"run {found.manifest.run_id} of {found.manifest.created} in {directory}")
    print(found.coverage.describe_tasks())
    print(found.coverage)
    print(meaning)
    for line in _changes(directory):
        print(line)
    if found.coverage.exit_status is not ExitStatus.COMPLETE:
        print(advice)


def _changes(directory: Path) -> Iterator[str]:
    """What was changed while the run was collected."""
    changes = read_changes(directory)
    if not changes:
        return
    more = len(changes) - SHOWN_CHANGES
    yield "changed while it was collected:"
    if more > 0:
        yield f"  {more} earlier changes; --json has all"
    for change in changes[-SHOWN_CHANGES:]:
        yield "  " + printable_line(f"{describe_time(change.time)} by {change.by}: {change}")


def _as_json(directory: Path, found: RunOnDisk) -> str:
    coverage, summary = found.coverage, found.metrics.summary()
    status = {
        "run_id": found.manifest.run_id,
        "created": found.manifest.created,
        "seed": found.manifest.identity.seed,
        "coverage": {name: getattr(coverage, name) for name in _COVERAGE},
        "exit_status": int(coverage.exit_status),
        "retried": found.metrics.retried,
        "summary": summary,
        "changes": read_changes(directory),
        "deserves_a_look": look_data(found.metrics, summary),
        "failure_examples": {
            kind: {
                "task": example.key.task,
                "repeat": example.key.repeat,
                "detail": example.detail,
                "place": example.place,
            }
            for kind, example in sorted(found.metrics.examples.items())
        },
    }
    return msgspec.json.format(msgspec.json.encode(status), indent=2).decode()
