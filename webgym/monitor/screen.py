"""Where snapshots are shown: a terminal is redrawn in place, anything else gets a line at times."""

import contextlib
from typing import Protocol, TextIO

from rich.console import Console, ConsoleDimensions
from rich.control import Control
from rich.live import Live

from webgym.monitor.board import Board, plain_line
from webgym.monitor.snapshot import MonitorSnapshot

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
