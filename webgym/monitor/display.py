"""Displaying a run: a thread draws snapshots on a terminal or as lines, and writes them to a file.

The thread cannot delay or break the run. A screen or a file that fails is not used any more, with a
warning. A terminal that is paused (Ctrl-S) blocks this thread only, which is abandoned at the end.
"""

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TextIO

from rich.console import Console, ConsoleDimensions
from rich.control import Control
from rich.live import Live

from rollgym.monitor.screen import LINE_INTERVAL, terminal_of, write_line
from webgym.monitor.board import Board, plain_line
from webgym.monitor.snapshot import MonitorSnapshot, write_snapshot

DRAW_INTERVAL = 0.25
LINE_SHARE = 0.05
_LINES_INTERVAL = 0.5
FILE_INTERVAL = 1.0
STOP_TIMEOUT = 3.0

log = logging.getLogger(__name__)


class SnapshotScreen(Protocol):
    """Shows snapshots. All calls come from one thread at a time."""

    interval: float
    """Seconds between two snapshots."""

    def show(self, snapshot: MonitorSnapshot) -> None: ...

    def stop(self, snapshot: MonitorSnapshot) -> None:
        """Show the last snapshot and release the terminal."""


class BoardScreen:
    """A board that is redrawn in place on a terminal; printed lines scroll above it.

    A terminal that gets narrower wraps the lines on it, so it is cleared when its size changes.
    """

    interval = DRAW_INTERVAL

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, auto_refresh=False, vertical_overflow="crop")
        self._size: ConsoleDimensions | None = None

    def show(self, snapshot: MonitorSnapshot) -> None:
        if not self._live.is_started:
            self._live.start()
        size = self._console.size
        if self._size not in (None, size):
            self._console.control(Control.clear(), Control.home())
        self._size = size
        try:
            self._live.update(Board(snapshot), refresh=True)
        except BaseException:
            self._live.stop()  # shows the cursor again, also where it cannot draw
            raise

    def stop(self, snapshot: MonitorSnapshot) -> None:
        if self._live.is_started:
            self.show(snapshot)
            self._live.stop()


class LogScreen:
    """A line every `interval` seconds or with every twentieth of the rollouts, and one at the end.

    The lines have no control characters. A closed reader (`| head`) ends the lines, not the run.
    """

    interval = _LINES_INTERVAL

    def __init__(self, stream: TextIO, line_interval: float = LINE_INTERVAL) -> None:
        self._stream = stream
        self._line_interval = line_interval
        self._last: MonitorSnapshot | None = None

    def show(self, snapshot: MonitorSnapshot) -> None:
        last = self._last
        if (
            last is None
            or snapshot.elapsed - last.elapsed >= self._line_interval
            or snapshot.ended - last.ended >= max(1.0, LINE_SHARE * snapshot.expected)
        ):
            self.stop(snapshot)

    def stop(self, snapshot: MonitorSnapshot) -> None:
        self._last = snapshot
        write_line(self._stream, plain_line(snapshot))


def choose_screen(
    stream: TextIO | None, line_interval: float = LINE_INTERVAL
) -> SnapshotScreen | None:
    """The screen for a stream, if there is one."""
    if stream is None:
        return None
    console = terminal_of(stream)
    return BoardScreen(console) if console else LogScreen(stream, line_interval)


class Display:
    """Shows `snapshot()` on a screen and in a file until it is stopped."""

    def __init__(
        self,
        snapshot: Callable[[], MonitorSnapshot],
        screen: SnapshotScreen | None,
        file: Path | None = None,
        *,
        watches: bool = False,
    ) -> None:
        """`watches` says that `snapshot` must be called even if nothing is shown."""
        self._watches = watches
        self._snapshot = snapshot
        self._screen = screen
        self._file = file
        self._written = 0.0
        self._redraw = threading.Event()
        self._stopping = False
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread, unless it runs already or has nothing to do."""
        is_shown = self._screen is not None or self._file is not None or self._watches
        if self._thread is None and not self._stopping and is_shown:
            self._thread = threading.Thread(target=self._live, name="webgym-monitor", daemon=True)
            self._thread.start()

    def redraw(self) -> None:
        """Draw soon, because of an event that should not wait for the next drawing."""
        self._redraw.set()

    def stop(self) -> None:
        """Show the last snapshot, release the terminal. May be called again, or before `start`."""
        self._stopping = True
        self._redraw.set()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(STOP_TIMEOUT)

    def _live(self) -> None:
        while not self._stopping:
            snapshot = self._snapshot()
            self._draw(snapshot)
            if time.monotonic() - self._written >= FILE_INTERVAL:
                self._write(snapshot)
            self._redraw.wait(self._screen.interval if self._screen else FILE_INTERVAL)
            self._redraw.clear()
        last = self._snapshot()
        self._draw(last, is_last=True)
        self._write(last)

    def _draw(self, snapshot: MonitorSnapshot, *, is_last: bool = False) -> None:
        if self._screen is None:
            return
        try:
            (self._screen.stop if is_last else self._screen.show)(snapshot)
        except Exception:
            self._screen = None
            log.exception("the monitor cannot draw and is hidden from now on")

    def _write(self, snapshot: MonitorSnapshot) -> None:
        if self._file is None:
            return
        self._written = time.monotonic()
        try:
            write_snapshot(self._file, snapshot)
        except OSError as error:
            log.warning("the monitor's file %s cannot be written: %s", self._file, error)
            self._file = None
