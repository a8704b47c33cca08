"""Telling a tracker the metrics: Weights & Biases, or a file of JSON lines.

A tracker is an extra. It is spoken to by a thread of its own, through a queue that drops what does
not fit; it can be slow, unreachable or broken, and no rollout waits for it. What goes wrong is
said once.
"""

import json
import logging
import queue
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from rollgym.store import RefusedError
from webgym.rollout.settings import TrackerSettings

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
