"""The end of a rollout, in words: the metrics, what went wrong, the files, what adds up to what.

The last lines are always the coverage and what it means, so that they are what one sees.
"""

import json
import logging
import os
import queue
import shlex
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import msgspec

from rollgym.cli.process import say
from rollgym.cli.status import read_run
from rollgym.cli.summary import DIGITS, PYTHON, explain_coverage, summary_lines
from rollgym.engine import Coverage, ExitStatus
from rollgym.store import RefusedError, read_manifest
from webgym.rollout.iteration import IterationPaths, IterationReport
from webgym.rollout.settings import TrackerSettings


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
    meaning, advice = explain_coverage(coverage, PYTHON)
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


QUEUE_SIZE = 1_000
FINISH_SECONDS = 30.0
FILE = "metrics.jsonl"
_LOGGER = logging.getLogger("webgym.rollout")

Metrics = Mapping[str, float | int | None]


class TrackerError(RefusedError):
    """The tracker that was asked for is not installed, or cannot be used."""


class Tracker(Protocol):
    """Where metrics go."""

    def log(self, metrics: Metrics, step: int) -> None:
        """Take the metrics of an iteration. Returns at once and raises nothing."""

    def finish(self) -> None:
        """Bring out what was logged, within a bound. Raises nothing."""


class Sink(Protocol):
    """A place that takes metrics in its own time, and may fail."""

    def write(self, metrics: Metrics, step: int) -> None: ...

    def close(self) -> None: ...


class NoTracker:
    """Where nobody wants the metrics."""

    def log(self, metrics: Metrics, step: int) -> None: ...

    def finish(self) -> None: ...


class JsonlSink:
    """A line for each call, appended to a file."""

    def __init__(self, path: Path, labels: Mapping[str, str]) -> None:
        self._path = path
        self._labels = dict(labels)

    def write(self, metrics: Metrics, step: int) -> None:
        line = json.dumps({**self._labels, "step": step, **metrics}) + "\n"
        with self._path.open("a", encoding="utf-8") as file:
            file.write(line)

    def close(self) -> None: ...


class WandbSink:
    """A run of Weights & Biases. Continuing a rollout continues its run."""

    def __init__(self, wandb: Any, settings: TrackerSettings, name: str, folder: Path) -> None:
        self._run = wandb.init(
            project=settings.project, name=name, id=name, resume="allow", dir=str(folder)
        )

    def write(self, metrics: Metrics, step: int) -> None:
        # As a value, not as the tracker's own step: train and test of an iteration share it.
        self._run.log({"iteration": step, **metrics})

    def close(self) -> None:
        self._run.finish()


class QueuedTracker:
    """A sink behind a bounded queue and a thread."""

    def __init__(self, open_sink: "OpenSink", finish_seconds: float = FINISH_SECONDS) -> None:
        self._queue: queue.Queue[tuple[Metrics, int] | None] = queue.Queue(QUEUE_SIZE)
        self._open_sink = open_sink
        self._finish_seconds = finish_seconds
        self._complained = False
        self._thread = threading.Thread(target=self._work, name="tracker", daemon=True)
        self._thread.start()

    def log(self, metrics: Metrics, step: int) -> None:
        try:
            self._queue.put_nowait((metrics, step))
        except queue.Full:
            self._complain("it is too slow, and metrics were left out")

    def finish(self) -> None:
        try:
            self._queue.put(None, timeout=self._finish_seconds)
        except queue.Full:
            self._complain("it is too slow, and metrics were left out")
            return
        self._thread.join(self._finish_seconds)
        if self._thread.is_alive():
            self._complain(f"it did not end within {self._finish_seconds:g} seconds")

    def _work(self) -> None:
        """The sink is opened when there is something for it: not every command comes so far."""
        entry = self._queue.get()
        if entry is None:
            return
        try:
            sink = self._open_sink()
            while entry is not None:
                sink.write(*entry)
                entry = self._queue.get()
            sink.close()
        except Exception as error:  # noqa: BLE001 - whatever a tracker raises ends the tracker alone
            self._complain(f"{type(error).__name__}: {error}")

    def _complain(self, what: str) -> None:
        if not self._complained:
            self._complained = True
            _LOGGER.warning("the tracker does not work (%s); the metrics are in the files", what)


class OpenSink(Protocol):
    """Connects to the place; called in the tracker's thread."""

    def __call__(self) -> Sink: ...


def open_tracker(settings: TrackerSettings, save_path: Path) -> Tracker:
    """The tracker that the settings name. Raises TrackerError where it is not installed."""
    name = settings.name or save_path.resolve().name
    match settings.kind:
        case None:
            return NoTracker()
        case "jsonl":
            labels = {"project": settings.project, "name": name}
            return QueuedTracker(lambda: JsonlSink(save_path / FILE, labels))
        case "wandb":
            wandb = _wandb()
            return QueuedTracker(lambda: WandbSink(wandb, settings, name, save_path))


def _wandb() -> Any:
    try:
        import wandb  # type: ignore[import-not-found] # noqa: PLC0415 - an extra
    except ImportError as error:
        raise TrackerError(
            "tracker_config.kind=wandb needs the package wandb: pip install 'rollgym[wandb]', or "
            "take tracker_config.kind=jsonl"
        ) from error
    return wandb
