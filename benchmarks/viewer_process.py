"""The viewer as people start it: a process with an address, asked by HTTP, watched from outside."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import urlopen

import msgspec

from benchmarks.process_costs import tree_costs

COMMAND = Path(sys.executable).with_name("rollgym")
PATIENCE = 1_800.0
ANSWER_WITHIN = 120.0
LOOK_INTERVAL = 0.05
_ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+/\S*")

T = TypeVar("T")
Query = str | Mapping[str, str | int]


class Answered(NamedTuple):
    """What was answered, after how many seconds."""

    value: Any
    seconds: float


class Viewer:
    """One process that shows one file. Leaving the block ends it."""

    def __init__(self, path: Path, folder: Path) -> None:
        """What it says goes to a new file in `folder`, and so do its caches."""
        self._said = folder / f"viewer.{time.monotonic_ns()}.log"
        self.began = time.perf_counter()
        with self._said.open("wb") as said:
            self._process = subprocess.Popen(
                [COMMAND, "view", path, "--port", "0"],
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                env={**os.environ, "XDG_CACHE_HOME": str(folder / "cache")},
            )
        self.memory = 0.0
        """The largest resident memory in MB, known once it has ended."""
        self.cpu = 0.0

    def __enter__(self) -> Self:
        try:
            self.until(lambda: _ADDRESS.search(self._said.read_text()))
            self.started = time.perf_counter() - self.began
            self.address = _ADDRESS.findall(self._said.read_text())[0].rstrip("/")
            sources = self.until(lambda: self.get("/api/sources").value["sources"])
        except BaseException:
            self._end()
            raise
        self.source = f"/s/{sources[0]['id']}"
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.look()
        self._end()

    @property
    def pid(self) -> int:
        return self._process.pid

    def look(self) -> None:
        """See what it has cost so far."""
        self.memory = max(self.memory, _peak_memory(self.pid))
        self.cpu = tree_costs(self.pid).cpu

    def get(self, path: str, query: Query = "") -> Answered:
        """Ask for JSON. Raises RuntimeError for an answer that is an error."""
        words = query if isinstance(query, str) else urlencode(query)
        url = f"{self.address}{path}{'?' if words else ''}{words}"
        began = time.perf_counter()
        try:
            with urlopen(url, timeout=ANSWER_WITHIN) as answer:
                body = answer.read()
        except HTTPError as error:
            words = error.read().decode("utf-8", "replace")
            raise RuntimeError(f"{url} was answered with {error.code}: {words}") from error
        return Answered(msgspec.json.decode(body), time.perf_counter() - began)

    def ask(self, path: str, query: Query = "") -> Answered:
        """Ask for something of the file."""
        return self.get(f"/api{self.source}{path}", query)

    def read(self, path: str, query: str) -> tuple[int, float]:
        """The bytes of an answer that may be very long, and the seconds that it took."""
        began, size = time.perf_counter(), 0
        url = f"{self.address}/api{self.source}{path}?{query}"
        with urlopen(url, timeout=ANSWER_WITHIN) as answer:
            while chunk := answer.read(1 << 20):
                size += len(chunk)
        return size, time.perf_counter() - began

    def state(self) -> dict[str, Any]:
        state: dict[str, Any] = self.get("/api/sources").value["sources"][0]["state"]
        return state

    def until(self, holds: Callable[[], T], interval: float = LOOK_INTERVAL) -> T:
        """The first answer that is true. Raises RuntimeError where none comes."""
        deadline = time.perf_counter() + PATIENCE
        while not (found := holds()):
            if self._process.poll() is not None:
                raise RuntimeError(f"the viewer ended early:\n{self._said.read_text()}")
            if time.perf_counter() > deadline:
                raise RuntimeError(f"the viewer takes too long:\n{self._said.read_text()}")
            time.sleep(interval)
        return found

    def _end(self) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _peak_memory(pid: int) -> float:
    """In MB, as the kernel has counted it since the process began."""
    status = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    return int(found[1]) * 1024 / 1e6 if found else 0.0
