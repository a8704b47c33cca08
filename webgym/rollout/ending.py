"""The end of a rollout, in words: the metrics, what went wrong, the files, what adds up to what.

The last lines are always the coverage and what it means, so that they are what one sees.
"""

import json
import os
import shlex
from pathlib import Path

import msgspec

from rollgym.cli.run_directory import read_run
from rollgym.cli.streams import say
from rollgym.cli.summary import DIGITS, summary_lines, verdict_lines
from rollgym.engine import Coverage, ExitStatus
from rollgym.store import read_manifest
from webgym.iteration.paths import IterationPaths
from webgym.iteration.report import IterationReport


def print_metrics(report: IterationReport) -> None:
    """The block of JSON; the file has all digits."""
    numbers = msgspec.structs.asdict(report.metrics)
    say(json.dumps({name: round(number, DIGITS) for name, number in numbers.items()}, indent=4))


def print_failures(run: Path) -> None:
    """What failed, by kind, and what was left out, as the run's journal has it."""
    if read_manifest(run) is None:
        return
    lines = summary_lines(read_run(run).metrics)
    next(lines)  # the usual numbers, instead of which a rollout has its own
    for line in lines:
        say(line)


def print_files(paths: IterationPaths) -> None:
    """Those that are there."""
    for name, path in (
        ("trajectories", paths.trajectories),
        ("metrics", paths.metrics),
        ("journal", paths.run),
        ("screenshots", paths.screenshots),
    ):
        if path.exists():
            say(f"{name + ':':<14}{shown(path)}")
    say(f"look at them: rollgym view {shlex.quote(shown(paths.save_path))}")


def print_verdict(coverage: Coverage, iteration: int, when_complete: str) -> ExitStatus:
    """The last lines; the exit status. `when_complete` is what to do if nothing is left to do."""
    status = coverage.exit_status
    meaning, advice = verdict_lines(coverage)
    match status:
        case ExitStatus.COMPLETE:
            advice = when_complete
        case ExitStatus.FAILED:
            advice = f"to run them again: iteration={iteration} retry_failed=true"
        case ExitStatus.OMITTED:
            advice = f"to run them after all: iteration={iteration} retry_omitted=true"
    if coverage.groups:
        say(coverage.describe_tasks())
    say(str(coverage))
    say(f"exit status {status:d}: {meaning}")
    say(f"next: {advice}")
    return status


def coverage_of(report: IterationReport) -> Coverage:
    """What a metrics file says; of groups it says nothing."""
    counts = report.coverage
    return Coverage(
        expected=counts.expected,
        completed=counts.completed,
        failed=counts.failed,
        omitted=counts.omitted,
        groups=0,
        groups_complete=0,
        resumed=counts.expected - counts.unresolved,
        attempts=0,
        abandoned=0,
        dropped_events={},
    )


def shown(path: Path) -> str:
    """As a person here would write it."""
    relative = os.path.relpath(path)
    return str(path) if relative.startswith(os.pardir) else relative
