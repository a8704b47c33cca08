"""Trackers get the metrics, and whatever they do, nobody waits for them."""

import json
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from webgym.rollout.reporting import Metrics, MetricsTracker, TrackerError, open_tracker
from webgym.rollout.settings import TrackerSettings


def settings(**given: Any) -> TrackerSettings:
    return TrackerSettings.model_validate(given)


def test_a_file_gets_a_line_for_each_iteration(tmp_path: Path) -> None:
    for step in range(2):
        tracker = open_tracker(settings(kind="jsonl", name="first"), tmp_path)
        tracker.log({"train/success_rate": 0.5}, step)
        tracker.finish()
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [0, 1]
    assert lines[0] == {"project": "rollgym", "name": "first", "step": 0, "train/success_rate": 0.5}


def test_without_a_tracker_nothing_is_written(tmp_path: Path) -> None:
    tracker = open_tracker(settings(), tmp_path)
    tracker.log({"x": 1}, 0)
    tracker.finish()
    assert not list(tmp_path.iterdir())


def test_a_tracker_that_is_not_installed_is_refused_before_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(TrackerError, match=r"pip install 'rollgym\[wandb\]'"):
        open_tracker(settings(kind="wandb"), tmp_path)


def test_the_metrics_reach_weights_and_biases(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[object] = []
    run = SimpleNamespace(log=told.append, finish=lambda: told.append("finished"))

    def init(**arguments: object) -> SimpleNamespace:
        told.append((arguments["project"], arguments["name"], arguments["resume"]))
        return run

    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(init=init))
    tracker = open_tracker(settings(kind="wandb", project="p"), tmp_path / "exp1")
    tracker.log({"train/success_rate": 1.0}, 3)
    tracker.finish()
    assert told == [("p", "exp1", "allow"), {"iteration": 3, "train/success_rate": 1.0}, "finished"]


class Broken:
    """A sink that fails."""

    def write(self, metrics: Metrics, step: int) -> None:
        raise ConnectionError("no route")

    def close(self) -> None: ...


class Slow:
    """A sink that never comes back."""

    def __init__(self) -> None:
        self.close_all = threading.Event()

    def write(self, metrics: Metrics, step: int) -> None:
        self.close_all.wait(90)

    def close(self) -> None: ...


def test_a_broken_tracker_is_said_once_and_ends_nothing(caplog: pytest.LogCaptureFixture) -> None:
    tracker = MetricsTracker(Broken)
    for step in range(3):
        tracker.log({"x": 1}, step)
    tracker.finish()
    assert [record.message for record in caplog.records] == [
        "the tracker does not work (ConnectionError: no route); the metrics are in the files"
    ]


def test_a_slow_tracker_delays_nobody(caplog: pytest.LogCaptureFixture) -> None:
    sink = Slow()
    began = time.monotonic()
    tracker = MetricsTracker(lambda: sink, finish_seconds=0.2)
    for step in range(5_000):
        tracker.log({"x": 1}, step)
    tracker.finish()
    assert time.monotonic() - began < 45
    assert len(caplog.records) == 1
    sink.close_all.set()
