"""A command in a process of its own, and what it cost once it has ended.

The kernel counts the costs of a process with all its threads, and tells them to whoever reaps it.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

PATIENCE = 300.0
LOOK_INTERVAL = 0.005


class Cost(NamedTuple):
    """CPU seconds, user and system; seconds from start to end; peak resident memory in MB."""

    cpu: float
    wall: float
    memory: float


class Child:
    """One process. Leaving the block kills it if it still runs."""

    def __init__(self, command: Sequence[str | Path], folder: Path) -> None:
        """Both its streams go to one new file in `folder`, which it also runs in."""
        self._name = Path(command[0]).name
        self._said = folder / f"{self._name}.{time.monotonic_ns()}.log"
        self._cost: Cost | None = None
        self._began = time.perf_counter()
        with self._said.open("wb") as said:
            self._process = subprocess.Popen(
                command, cwd=folder, stdin=subprocess.DEVNULL, stdout=said, stderr=said
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if not self._ended():
            self._process.kill()
            self._process.wait()

    @property
    def said(self) -> str:
        return self._said.read_text(errors="replace")

    def interrupt(self) -> None:
        # Not through Popen, which would reap a process that has ended and forget its costs.
        os.kill(self._process.pid, signal.SIGINT)

    def wait_until(self, holds: Callable[[], bool]) -> float:
        """The seconds from its start until this holds. Raises RuntimeError if it ends before."""
        while not holds():
            if self._ended() and not holds():
                raise RuntimeError(f"{self._name} ended early:\n{self.said}")
            self._pause()
        return time.perf_counter() - self._began

    def wait(self) -> Cost:
        """Until it has ended. Raises RuntimeError if not well."""
        while not self._ended():
            self._pause()
        if self._cost is None or self._process.returncode:
            raise RuntimeError(f"{self._name} ended with {self._process.returncode}:\n{self.said}")
        return self._cost

    def _pause(self) -> None:
        if time.perf_counter() - self._began > PATIENCE:
            raise RuntimeError(f"{self._name} takes longer than {PATIENCE:.0f} s:\n{self.said}")
        time.sleep(LOOK_INTERVAL)

    def _ended(self) -> bool:
        if self._process.returncode is None:
            pid, status, usage = os.wait4(self._process.pid, os.WNOHANG)
            if pid:
                self._process.returncode = os.waitstatus_to_exitcode(status)
                wall = time.perf_counter() - self._began
                unit = 1 if sys.platform == "darwin" else 1024
                memory = usage.ru_maxrss * unit / 1e6
                self._cost = Cost(usage.ru_utime + usage.ru_stime, wall, memory)
        return self._process.returncode is not None
