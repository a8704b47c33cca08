"""Drawing the progress: a terminal is redrawn in place, other streams get a line at intervals.

Both screens request the present view from their own thread, so the clock advances even when there
are no events. `redraw` draws at once, because of an event that should not wait. `stop` draws the
last view and releases the terminal; it may be called again, and before `start`.
"""

import contextlib
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, TextIO

from rollgym.monitor.progress_view import (
    TITLE,
    ProgressView,
    bar_line,
    detail_items,
    flow,
    plain_line,
)

if TYPE_CHECKING:  # rich is imported where a terminal is drawn
    from rich.console import Console, Group

REDRAWS_PER_SECOND = 5.0
LINE_INTERVAL = 10.0

CurrentView = Callable[[], ProgressView]


class LiveScreen:
    """A few lines of a terminal, redrawn in place."""

    def __init__(self, console: "Console", view: CurrentView) -> None:
        from rich.live import Live  # noqa: PLC0415

        self._console = console
        self._view = view
        self._live = Live(
            console=console,
            get_renderable=self.render,
            refresh_per_second=REDRAWS_PER_SECOND,
        )

    def start(self) -> None:
        self._live.start()

    def redraw(self) -> None:
        self._live.refresh()

    def stop(self) -> None:
        self._live.stop()

    def render(self) -> "Group":
        """The lines for the terminal's present width. Foreign text is never parsed as markup."""
        from rich.console import Group  # noqa: PLC0415
        from rich.text import Text  # noqa: PLC0415

        view, width = self._view(), self._console.width
        ascii_only = self._console.options.ascii_only
        lines = [Text(bar_line(view, width, ascii_only=ascii_only))]
        lines += [Text(line) for line in flow(detail_items(view), width)]
        if view.failed:
            lines[-1].highlight_words([f"failed {view.failed}"], "red")
        if view.failure:
            lines.append(Text(view.failure, style="red" if view.failed else "yellow"))
        if view.stopping:
            lines.append(Text(view.stopping, style="bold yellow"))
        for line in lines:
            line.no_wrap, line.overflow = True, "ellipsis"
        return Group(*lines)


class LineScreen:
    """A line at the start, one every `interval` seconds, one at the end; no control characters.

    If the reader closes the stream (`| head`), the lines end and the run continues.
    """

    def __init__(self, stream: TextIO, view: CurrentView, interval: float = LINE_INTERVAL) -> None:
        self._stream = stream
        self._view = view
        self._interval = interval
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        expected = self._view().expected
        if expected is not None:
            write_line(self._stream, f"{TITLE}: {expected} expected")
        self._thread = threading.Thread(target=self._tick, name="rollgym-progress", daemon=True)
        self._thread.start()

    def redraw(self) -> None:
        write_line(self._stream, plain_line(self._view()))

    def stop(self) -> None:
        if self._thread is None:
            return
        self._stopping.set()
        self._thread.join()
        self._thread = None
        write_line(self._stream, plain_line(self._view()))

    def _tick(self) -> None:
        while not self._stopping.wait(self._interval):
            write_line(self._stream, plain_line(self._view()))


def write_line(stream: TextIO, line: str) -> None:
    """Write a line in the encoding of the stream. A closed stream is ignored."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    encodable = line.encode(encoding, "replace").decode(encoding)
    with contextlib.suppress(OSError, ValueError):  # ValueError: the stream is closed
        stream.write(encodable + "\n")
        stream.flush()


def terminal_of(stream: TextIO) -> "Console | None":
    """A console for a terminal; None for other streams. FORCE_COLOR does not make one of a pipe."""
    if not stream.isatty():
        return None
    from rich.console import Console  # noqa: PLC0415

    console = Console(file=stream, highlight=False)
    return console if console.is_terminal and not console.is_dumb_terminal else None


def choose_screen(
    stream: TextIO, view: CurrentView, interval: float = LINE_INTERVAL
) -> LiveScreen | LineScreen:
    """Choose the screen for the stream."""
    console = terminal_of(stream)
    return LiveScreen(console, view) if console else LineScreen(stream, view, interval)
