"""The thread that shows a run: it asks for snapshots, draws them, and keeps the file up.

It cannot hold up the run or break it. A screen or a file that fails is given up on with a warning.
A terminal that takes nothing more (Ctrl-S) holds up this thread only, and at the end it is left
behind.
"""

import contextlib
import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TextIO

from rich.console import Console, ConsoleDimensions
from rich.control import Control
from rich.live import Live

from webgym.monitor.board import Board, plain_line
from webgym.monitor.snapshot import MonitorSnapshot, write_snapshot

DRAW_INTERVAL = 0.25
LINE_INTERVAL = 10.0
LINE_SHARE = 0.05
_LINES_LOOK = 0.5


class Screen(Protocol):
    """Something that shows snapshots. All calls come from one thread at a time."""

    interval: float
    """How often it wants to be shown the present moment, in seconds."""

    def show(self, snapshot: MonitorSnapshot) -> None: ...

    def stop(self, snapshot: MonitorSnapshot) -> None:
        """Show the last one and let go of the terminal."""


class NoScreen:
    """Nobody looks."""

    interval = 1.0

    def show(self, snapshot: MonitorSnapshot) -> None:
        """Nothing."""

    def stop(self, snapshot: MonitorSnapshot) -> None:
        """Nothing."""


class LiveScreen:
    """A board that is drawn again and again at the same place; what is printed scrolls above it.

    A terminal that is made narrower breaks the lines that are on it, so after a change of its size
    it is cleared first.
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
            self._live.stop()  # which shows the cursor again even where it cannot draw
            raise

    def stop(self, snapshot: MonitorSnapshot) -> None:
        if self._live.is_started:
            self.show(snapshot)
            self._live.stop()


class LineScreen:
    """A line every `interval` seconds or with every twentieth of the rollouts, one at the end.

    There are no control characters. A reader that goes away (`| head`) ends the lines, not the run.
    """

    interval = _LINES_LOOK

    def __init__(self, stream: TextIO, line_interval: float = LINE_INTERVAL) -> None:
        self._stream = stream
        self._line_interval = line_interval
        self._shown: MonitorSnapshot | None = None

    def show(self, snapshot: MonitorSnapshot) -> None:
        last = self._shown
        if (
            last is None
            or snapshot.elapsed - last.elapsed >= self._line_interval
            or snapshot.settled - last.settled >= max(1.0, LINE_SHARE * snapshot.expected)
        ):
            self._write(snapshot)

    def stop(self, snapshot: MonitorSnapshot) -> None:
        self._write(snapshot)

    def _write(self, snapshot: MonitorSnapshot) -> None:
        self._shown = snapshot
        encoding = getattr(self._stream, "encoding", None) or "utf-8"
        line = plain_line(snapshot).encode(encoding, "replace").decode(encoding)
        with contextlib.suppress(OSError, ValueError):  # ValueError: the stream is closed
            self._stream.write(line + "\n")
            self._stream.flush()


def choose_screen(stream: TextIO | None, line_interval: float = LINE_INTERVAL) -> Screen:
    """What fits the stream. FORCE_COLOR and the like do not make a terminal out of a pipe."""
    if stream is None:
        return NoScreen()
    console = Console(file=stream, highlight=False)
    if stream.isatty() and console.is_terminal and not console.is_dumb_terminal:
        return LiveScreen(console)
    return LineScreen(stream, line_interval)


FILE_INTERVAL = 1.0
ENDING_PATIENCE = 3.0

log = logging.getLogger(__name__)


class Display:
    """Shows `snapshot()` on a screen and in a file until it is stopped."""

    def __init__(
        self, snapshot: Callable[[], MonitorSnapshot], screen: Screen, file: Path | None = None
    ) -> None:
        self._snapshot = snapshot
        self._screen = screen
        self._file = file
        self._written = 0.0
        self._nudged = threading.Event()
        self._stopping = False
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin. Where there is neither screen nor file, and when begun, this does nothing."""
        nobody_looks = isinstance(self._screen, NoScreen) and self._file is None
        if self._thread is None and not self._stopping and not nobody_looks:
            self._thread = threading.Thread(target=self._live, name="webgym-monitor", daemon=True)
            self._thread.start()

    def nudge(self) -> None:
        """Something happened that should not wait for the next drawing."""
        self._nudged.set()

    def stop(self) -> None:
        """Show the last moment and let go of the terminal. May be called again, and unstarted."""
        self._stopping = True
        self._nudged.set()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(ENDING_PATIENCE)

    def _live(self) -> None:
        while not self._stopping:
            self._show(self._snapshot())
            self._nudged.wait(self._screen.interval)
            self._nudged.clear()
        last = self._snapshot()
        self._draw(self._screen.stop, last)
        self._write(last)

    def _show(self, snapshot: MonitorSnapshot) -> None:
        self._draw(self._screen.show, snapshot)
        if time.monotonic() - self._written >= FILE_INTERVAL:
            self._write(snapshot)

    def _draw(self, draw: Callable[[MonitorSnapshot], None], snapshot: MonitorSnapshot) -> None:
        try:
            draw(snapshot)
        except Exception:
            self._screen = NoScreen()
            log.exception("the monitor cannot draw and is not shown any more")

    def _write(self, snapshot: MonitorSnapshot) -> None:
        if self._file is None:
            return
        self._written = time.monotonic()
        try:
            write_snapshot(self._file, snapshot)
        except OSError as error:
            log.warning("the monitor's file %s cannot be written: %s", self._file, error)
            self._file = None
