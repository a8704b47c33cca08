"""Reporting an iteration: printed results, and metrics for a tracker.

The printed results are metrics, failures and files; the last lines are always the coverage and its
meaning. A tracker (Weights & Biases, or a file of JSON lines) is optional: it may be slow,
unreachable or broken without any effect on rollouts.
"""

import json
import logging
import shlex
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from rollgym.cli.process import relative_path, say, say_beside
from rollgym.cli.status import read_run
from rollgym.cli.summary import DIGITS, PYTHON, explain_coverage, summary_lines
from rollgym.engine import Coverage, ExitStatus
from rollgym.store import RefusedError, read_manifest
from webgym.rollout.iteration import IterationPaths, IterationReport
from webgym.rollout.settings import TrackerSettings
from webgym.trajectory.metrics import SHORT, RolloutMetrics


def print_metrics(metrics: RolloutMetrics) -> None:
    """Print the metrics as JSON, rounded; the file has all digits."""
    numbers = msgspec.structs.asdict(metrics)
    say(json.dumps({name: round(number, DIGITS) for name, number in numbers.items()}, indent=4))


def print_verdicts(report: IterationReport) -> None:
    """Print the counts of verdicts, and how the rates of the metrics differ from them."""
    for line in verdict_lines(report):
        say_beside(line)


def verdict_lines(report: IterationReport) -> Iterator[str]:
    """The counts of verdicts, and an explanation where the metrics count otherwise."""
    metrics, omitted = report.metrics, report.coverage.omitted
    if metrics.solved + metrics.not_solved + metrics.failed != metrics.total_trajectories:
        return  # an earlier version wrote the metrics, without verdicts
    yield (
        f"verdicts: {metrics.solved} solved, {metrics.not_solved} not solved, "
        f"{metrics.failed} failed (no verdict), {omitted} omitted"
    )
    if (groups := report.groups) is not None:
        yield (
            f"groups of {groups.rollouts_per_task}: {groups.complete} of {groups.expected} "
            f"complete, {groups.mixed} mixed, {groups.all_solved} all solved, "
            f"{groups.none_solved} none solved"
        )
    parts = {
        "failed": metrics.failed,
        "ended by going back from the start page (goback)": metrics.crashed_goback,
        f"had a verdict, fewer than {SHORT} steps and no answer": metrics.crashed_other,
    }
    if metrics.crashed != metrics.failed:
        listed = ", ".join(f"{count} {name}" for name, count in parts.items() if count)
        yield f"`crashed` counts {metrics.crashed} of them: {listed}"
    if metrics.crashed or metrics.blocked:
        counted = metrics.total_trajectories - metrics.crashed - metrics.blocked
        yield (
            f"`success_rate` is {metrics.successes} of {counted}: it leaves out {metrics.crashed} "
            f"crashed and {metrics.blocked} blocked trajectories"
        )


def print_failures(run: Path) -> None:
    """Print the failures by kind, and the omitted rollouts, from the run's journal."""
    if read_manifest(run) is None:
        return
    lines = summary_lines(read_run(run).metrics)
    next(lines)  # the metrics of tool agents
    for line in lines:
        say_beside(line)


def print_files(paths: IterationPaths) -> None:
    """Print the files that exist."""
    for name, path in (
        ("trajectories", paths.trajectories),
        ("metrics", paths.metrics),
        ("journal", paths.run),
        ("screenshots", paths.screenshots),
    ):
        if path.exists():
            say_beside(f"{name + ':':<14}{relative_path(path)}")
    say_beside(f"viewer:       rollgym view {shlex.quote(relative_path(paths.save_path))}")


def print_verdict(coverage: Coverage, iteration: int, when_complete: str) -> ExitStatus:
    """Print the last lines; the exit status. `when_complete` is the advice after full success."""
    status = coverage.exit_status
    meaning, advice = explain_coverage(coverage, PYTHON)
    match status:
        case ExitStatus.COMPLETE:
            advice = when_complete
        case ExitStatus.FAILED:
            advice = f"`iteration={iteration} retry_failed=true` runs the failed rollouts again."
        case ExitStatus.OMITTED:
            advice = f"`iteration={iteration} retry_omitted=true` runs the omitted rollouts."
        case ExitStatus.STOPPED:
            again = f"With `iteration={iteration} retry_failed=true`"
            advice = f"Then run the same command again. {again}, the failed rollouts run again too."
    if coverage.groups:
        say_beside(coverage.describe_tasks())
    say_beside(str(coverage))
    say_beside(f"exit status {status:d}: {meaning}")
    say_beside(advice)
    return status


def coverage_of(report: IterationReport) -> Coverage:
    """The coverage in a metrics file, which has no groups."""
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


SEND_SECONDS = 30.0
FILE = "metrics.jsonl"
_LOGGER = logging.getLogger("webgym.rollout")

Metrics = Mapping[str, float | int | None]
SendMetrics = Callable[[Metrics, int], object]
"""Sends the metrics of an iteration to a tracker. It may be slow or fail."""


class TrackerError(RefusedError):
    """The configured tracker is not installed, or cannot be used."""


def open_tracker(settings: TrackerSettings, save_path: Path) -> SendMetrics | None:
    """The configured tracker, if any. Raises TrackerError where it is not installed."""
    name = settings.name or save_path.resolve().name
    match settings.kind:
        case None:
            return None
        case "jsonl":
            labels = {"project": settings.project, "name": name}

            def append(metrics: Metrics, step: int) -> None:
                with (save_path / FILE).open("a", encoding="utf-8") as file:
                    file.write(json.dumps({**labels, "step": step, **metrics}) + "\n")

            return append
        case "wandb":
            wandb = _wandb()

            def log(metrics: Metrics, step: int) -> None:
                # A continued rollout continues its run.
                run = wandb.init(
                    project=settings.project, name=name, id=name, resume="allow", dir=str(save_path)
                )
                # As a value, not as the tracker's step: train and test of an iteration share it.
                run.log({"iteration": step, **metrics})
                run.finish()

            return log


def send_metrics(
    send: SendMetrics, metrics: Metrics, step: int, within: float = SEND_SECONDS
) -> None:
    """Send metrics in a thread, and wait for it at most this long. An error is only logged."""

    def work() -> None:
        try:
            send(metrics, step)
        except Exception as error:  # noqa: BLE001 - an error of a tracker ends the tracker alone
            _warn(f"{type(error).__name__}: {error}")

    thread = threading.Thread(target=work, name="tracker", daemon=True)
    thread.start()
    thread.join(within)
    if thread.is_alive():
        _warn(f"it did not end within {within:g} seconds")


def _warn(reason: str) -> None:
    _LOGGER.warning("the tracker does not work (%s); the metrics are in the files", reason)


def _wandb() -> Any:
    try:
        import wandb  # type: ignore[import-not-found] # noqa: PLC0415 - an extra
    except ImportError as error:
        raise TrackerError(
            "tracker_config.kind=wandb needs the package wandb: run pip install 'rollgym[wandb]', "
            "or set tracker_config.kind=jsonl"
        ) from error
    return wandb
