import io
import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from rollgym.engine import CollectionStarted, StopRequested
from rollgym.records import RolloutKey
from tests.unit.monitor.events import RIGHT, ended, recorded, started
from tests.unit.webgym.monitor.crowd import crowd
from webgym.monitor import display
from webgym.monitor.display import Display, LogScreen
from webgym.monitor.snapshot import MonitorSnapshot
from webgym.monitor.task_monitor import TaskMonitor

PATIENCE = 20.0


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def threads() -> int:
    return sum(thread.name == "webgym-monitor" for thread in threading.enumerate())


def test_a_pipe_gets_a_line_at_the_start_with_every_twentieth_and_at_the_end() -> None:
    stream = io.StringIO()
    with TaskMonitor(stream, title="run", line_interval=1000) as monitor:
        monitor.observe([CollectionStarted(40, 40, 0)])
        until(lambda: stream.getvalue().count("\n") == 1)
        monitor.observe([started(0), recorded(RIGHT, 0)])
        monitor.observe([started(1), recorded(RIGHT, 1)])
        until(lambda: stream.getvalue().count("\n") == 2)
        monitor.observe([ended(40, 2)])
    first, _, last = stream.getvalue().splitlines()
    assert first.startswith("run: 0% 0/40 ")
    assert last.startswith("run: 5% 2/40 ")
    assert "\x1b" not in stream.getvalue()
    assert threads() == 0


def test_lines_come_at_the_interval_when_nothing_ends() -> None:
    stream = io.StringIO()
    with TaskMonitor(stream, line_interval=0.01) as monitor:
        monitor.observe([CollectionStarted(40, 40, 0)])
        until(lambda: stream.getvalue().count("\n") >= 3)


def test_a_reader_that_went_away_ends_the_lines_and_nothing_else() -> None:
    stream = io.StringIO()
    screen = LogScreen(stream)
    stream.close()
    screen.show(crowd(10))
    screen.stop(crowd(10))


def test_the_file_has_the_present_state_and_in_the_end_the_last(tmp_path: Path) -> None:
    path = tmp_path / "monitor.iteration5.json"
    with TaskMonitor(file=path, title="run") as monitor:
        monitor.observe([CollectionStarted(2, 2, 0)])
        monitor.running(RolloutKey(0, 0), "model", 3)
        until(path.exists)
        monitor.observe([StopRequested("asked to stop")])
        monitor.observe([started(0), recorded(RIGHT, 0), ended(2, 1)])
    snapshot = msgspec.json.decode(path.read_bytes(), type=MonitorSnapshot)
    assert snapshot == monitor_like(monitor, snapshot)
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def monitor_like(monitor: TaskMonitor, written: MonitorSnapshot) -> MonitorSnapshot:
    """The monitor's own last word, at the time that was written."""
    assert written.finished
    return msgspec.structs.replace(monitor.snapshot(), time=written.time)


def test_a_file_that_cannot_be_written_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(display, "FILE_INTERVAL", 0.0)
    stream = io.StringIO()
    with TaskMonitor(stream, file=tmp_path / "no" / "such.json", line_interval=0.01) as monitor:
        monitor.observe([CollectionStarted(2, 2, 0)])
        until(lambda: stream.getvalue().count("\n") >= 2)
    assert caplog.text.count("cannot be written") == 1


def test_a_screen_that_fails_is_given_up_on_and_the_file_is_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken:
        interval = 0.01

        def show(self, _: MonitorSnapshot) -> None:
            raise ZeroDivisionError

        def stop(self, _: MonitorSnapshot) -> None:
            raise ZeroDivisionError

    path = tmp_path / "monitor.json"
    shown = Display(lambda: crowd(10, finished=True), Broken(), path)
    with caplog.at_level(logging.ERROR):
        shown.start()
        until(path.exists)
        shown.stop()
    assert caplog.text.count("cannot draw") == 1
    assert threads() == 0


def test_a_screen_that_hangs_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(display, "STOP_TIMEOUT", 0.05)
    release = threading.Event()

    class Stuck:
        interval = 0.01

        def show(self, _: MonitorSnapshot) -> None:
            release.wait(PATIENCE)

        def stop(self, _: MonitorSnapshot) -> None:
            """Nothing."""

    shown = Display(lambda: crowd(10), Stuck())
    shown.start()
    shown.stop()
    assert threads() == 1
    release.set()
    until(lambda: threads() == 0)


def test_where_nobody_looks_there_is_no_thread() -> None:
    with TaskMonitor() as monitor:
        monitor.observe([CollectionStarted(2, 2, 0)])
        assert threads() == 0
