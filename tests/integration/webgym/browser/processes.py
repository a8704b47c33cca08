"""Looking at processes from outside, as an operator would."""

import asyncio
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from webgym.browser.chromium.process_tree import read_groups

PATIENCE = 60.0


def alive(pids: list[int]) -> list[int]:
    """Those that are still running; one that only waits to be reaped is not."""
    return [pid for pid in pids if _state(pid) not in {"", "Z", "X"}]


def of_kind(group: int, kind: str) -> list[int]:
    return [process.pid for process in read_groups([group])[group] if process.kind == kind]


def zygotes(group: int, browser: int) -> list[int]:
    """Those that the browser forks others from; not what they have just forked."""
    found = read_groups([group])[group]
    return [process.pid for process in found if process.parent == browser]


def everything_in(group: int) -> list[int]:
    return [process.pid for process in read_groups([group])[group]]


def environment_of(pid: int) -> bytes:
    return Path(f"/proc/{pid}/environ").read_bytes()


def files_of(pid: int) -> list[str]:
    """What its open descriptors lead to."""
    held = []
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            held.append(str(descriptor.readlink()))
    return held


def open_files() -> int:
    """How many this process has."""
    return len(list(Path("/proc/self/fd").iterdir()))


def reaped() -> int:
    """A child of this process that waited to be reaped, or 0."""
    try:
        return os.waitpid(-1, os.WNOHANG)[0]
    except ChildProcessError:
        return 0


def wait_until_dead(pids: list[int], patience: float = PATIENCE) -> float:
    """How long it took. Those that survive are killed, by their number, before the test fails."""
    began = time.monotonic()
    while (left := alive(pids)) and time.monotonic() - began < patience:
        time.sleep(0.01)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert not left
    return time.monotonic() - began


async def until(condition: Callable[[], bool], what: str, patience: float = PATIENCE) -> None:
    deadline = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < deadline, f"not within {patience} s: {what}"
        await asyncio.sleep(0.01)


def _state(pid: int) -> str:
    return _stat(pid)[0]


def _stat(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return [""]
