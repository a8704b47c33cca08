"""Reporting an iteration: printed results, and metrics for a tracker.

The printed results are metrics, failures and files; the last lines are always the coverage and its
meaning. A tracker (Weights & Biases, or a file of JSON lines) is optional: it may be slow,
unreachable or broken without any effect on rollouts.
"""

import json
import logging
import queue
import shlex
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import msgspec

from rollgym.cli.process import say
from rollgym.cli.status import read_run
from rollgym.cli.summary import DIGITS, PYTHON, explain_coverage, summary_lines
from rollgym.engine import Coverage, ExitStatus
from rollgym.store import RefusedError, read_manifest
from webgym.rollout.command import relative_path
from webgym.rollout.iteration import IterationPaths, IterationReport
from webgym.rollout.settings import TrackerSettings


def print_metrics(report: IterationReport) -> None:
    """Print the metrics as JSON, rounded; the file has all digits."""
    numbers = msgspec.structs.asdict(report.metrics)
    say(json.dumps({name: round(number, DIGITS) for name, number in numbers.items()}, indent=4))


def print_failures(run: Path) -> None:
    """Print the failures by kind, and the omitted rollouts, from the run's journal."""
    if read_manifest(run) is None:
        return
    lines = summary_lines(read_run(run).metrics)
    next(lines)  # the metrics of tool agents
    for line in lines:
        say(line)


def print_files(paths: IterationPaths) -> None:
    """Print the files that exist."""
    for name, path in (
        ("trajectories", paths.trajectories),
        ("metrics", paths.metrics),
        ("journal", paths.run),
        ("screenshots", paths.screenshots),
    ):
        if path.exists():
            say(f"{name + ':':<14}{relative_path(path)}")
    say(f"viewer:       rollgym view {shlex.quote(relative_path(paths.save_path))}")


def print_verdict(coverage: Coverage, iteration: int, when_complete: str) -> ExitStatus:
    """Print the last lines; the exit status. `when_complete` is the advice after full success."""
    status = coverage.exit_status
    meaning, advice = explain_coverage(coverage, PYTHON)
    match status:
        case ExitStatus.COMPLETE:
            advice = when_complete
        case ExitStatus.FAILED:
            advice = f"iteration={iteration} retry_failed=true runs the failed rollouts again"
        case ExitStatus.OMITTED:
            advice = f"iteration={iteration} retry_omitted=true runs the omitted rollouts"
    if coverage.groups:
        say(coverage.describe_tasks())
    say(str(coverage))
    say(f"exit status {status:d}: {meaning}")
    say(f"next: {advice}")
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


QUEUE_SIZE = 1_000
FINISH_SECONDS = 30.0
FILE = "metrics.jsonl"
_LOGGER = logging.getLogger("webgym.rollout")

Metrics = Mapping[str, float | int | None]


class TrackerError(RefusedError):
    """The configured tracker is not installed, or cannot be used."""


class MetricsSink(Protocol):
    """A destination of metrics, which may be slow or fail."""

    def write(self, metrics: Metrics, step: int) -> None: ...

    def close(self) -> None: ...


class JsonlSink:
    """Appends a line to a file for each call."""

    def __init__(self, path: Path, labels: Mapping[str, str]) -> None:
        self._path = path
        self._labels = dict(labels)

    def write(self, metrics: Metrics, step: int) -> None:
        line = json.dumps({**self._labels, "step": step, **metrics}) + "\n"
        with self._path.open("a", encoding="utf-8") as file:
            file.write(line)

    def close(self) -> None: ...


class WandbSink:
    """A run of Weights & Biases. A continued rollout continues its run."""

    def __init__(self, wandb: Any, settings: TrackerSettings, name: str, folder: Path) -> None:
        self._run = wandb.init(
            project=settings.project, name=name, id=name, resume="allow", dir=str(folder)
        )

    def write(self, metrics: Metrics, step: int) -> None:
        # As a value, not as the tracker's step: train and test of an iteration share it.
        self._run.log({"iteration": step, **metrics})

    def close(self) -> None:
        self._run.finish()


class MetricsTracker:
    """Sends metrics to a sink through a bounded queue and a thread, so no rollout waits for it.

    Without `open_sink` metrics are not sent. The thread opens the sink when the first metrics
    come. An error is logged once.
    """

    def __init__(
        self,
        open_sink: Callable[[], MetricsSink] | None = None,
        finish_seconds: float = FINISH_SECONDS,
    ) -> None:
        self._queue: queue.Queue[tuple[Metrics, int] | None] = queue.Queue(QUEUE_SIZE)
        self._open_sink = open_sink
        self._finish_seconds = finish_seconds
        self._warned = False
        self._thread = threading.Thread(target=self._work, name="tracker", daemon=True)
        if open_sink is not None:
            self._thread.start()

    def log(self, metrics: Metrics, step: int) -> None:
        """Send the metrics of an iteration. Returns at once and raises nothing."""
        if self._open_sink is None:
            return
        try:
            self._queue.put_nowait((metrics, step))
        except queue.Full:
            self._warn("it is too slow, and metrics were dropped")

    def finish(self) -> None:
        """Wait until everything is sent, within a bound. Raises nothing."""
        if self._open_sink is None:
            return
        try:
            self._queue.put(None, timeout=self._finish_seconds)
        except queue.Full:
            self._warn("it is too slow, and metrics were dropped")
            return
        self._thread.join(self._finish_seconds)
        if self._thread.is_alive():
            self._warn(f"it did not end within {self._finish_seconds:g} seconds")

    def _work(self) -> None:
        entry = self._queue.get()
        if entry is None or self._open_sink is None:
            return
        try:
            sink = self._open_sink()
            while entry is not None:
                sink.write(*entry)
                entry = self._queue.get()
            sink.close()
        except Exception as error:  # noqa: BLE001 - an error of a tracker ends the tracker alone
            self._warn(f"{type(error).__name__}: {error}")

    def _warn(self, reason: str) -> None:
        if not self._warned:
            self._warned = True
            _LOGGER.warning("the tracker does not work (%s); the metrics are in the files", reason)


def open_tracker(settings: TrackerSettings, save_path: Path) -> MetricsTracker:
    """The configured tracker. Raises TrackerError where it is not installed."""
    name = settings.name or save_path.resolve().name
    match settings.kind:
        case None:
            return MetricsTracker()
        case "jsonl":
            labels = {"project": settings.project, "name": name}
            return MetricsTracker(lambda: JsonlSink(save_path / FILE, labels))
        case "wandb":
            wandb = _wandb()
            return MetricsTracker(lambda: WandbSink(wandb, settings, name, save_path))


def _wandb() -> Any:
    try:
        import wandb  # type: ignore[import-not-found] # noqa: PLC0415 - an extra
    except ImportError as error:
        raise TrackerError(
            "tracker_config.kind=wandb needs the package wandb: run pip install 'rollgym[wandb]', "
            "or set tracker_config.kind=jsonl"
        ) from error
    return wandb
