"""The thread that shows a run: it asks for snapshots, draws them, and keeps the file up.

It cannot hold up the run or break it. A screen or a file that fails is given up on with a warning.
A terminal that takes nothing more (Ctrl-S) holds up this thread only, and at the end it is left
behind.
"""

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path

from webgym.monitor.file import write_snapshot
from webgym.monitor.screen import NoScreen, Screen
from webgym.monitor.snapshot import MonitorSnapshot

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
