"""Trackers get the metrics; a slow or broken one does not stop the command."""

import json
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from webgym.rollout.reporting import Metrics, TrackerError, open_tracker, send_metrics
from webgym.rollout.settings import TrackerSettings


def settings(**given: Any) -> TrackerSettings:
    return TrackerSettings.model_validate(given)


def test_a_file_gets_a_line_for_each_iteration(tmp_path: Path) -> None:
    for step in range(2):
        tracker = open_tracker(settings(kind="jsonl", name="first"), tmp_path)
        assert tracker is not None
        send_metrics(tracker, {"train/success_rate": 0.5}, step)
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [0, 1]
    assert lines[0] == {"project": "rollgym", "name": "first", "step": 0, "train/success_rate": 0.5}


def test_by_default_there_is_no_tracker(tmp_path: Path) -> None:
    assert open_tracker(settings(), tmp_path) is None


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
    assert tracker is not None
    send_metrics(tracker, {"train/success_rate": 1.0}, 3)
    assert told == [("p", "exp1", "allow"), {"iteration": 3, "train/success_rate": 1.0}, "finished"]


def test_an_error_of_a_tracker_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def broken(metrics: Metrics, step: int) -> None:
        raise ConnectionError("no route")

    send_metrics(broken, {"x": 1}, 0)
    assert [record.message for record in caplog.records] == [
        "the tracker does not work (ConnectionError: no route); the metrics are in the files"
    ]


def test_a_slow_tracker_is_abandoned(caplog: pytest.LogCaptureFixture) -> None:
    released = threading.Event()
    send_metrics(lambda _metrics, _step: released.wait(90), {"x": 1}, 0, within=0.2)
    assert len(caplog.records) == 1
    assert "did not end within 0.2 seconds" in caplog.records[0].message
    released.set()
