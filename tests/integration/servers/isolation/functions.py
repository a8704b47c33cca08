"""What the isolated workers of the tests run."""

import contextlib
import ctypes
import fcntl
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any


def echo(value: Any) -> Any:
    return value


def process_id() -> int:
    return os.getpid()


def environment() -> dict[str, str]:
    return dict(os.environ)


def search_path() -> list[str]:
    return sys.path


def log_line(path: str, line: str, nap: float = 0.0) -> None:
    time.sleep(nap)
    with Path(path).open("a") as file:
        file.write(f"{line}\n")


def divide(number: int, by: int) -> float:
    return number / by


class Unprintable(Exception):  # noqa: N818
    def __str__(self) -> str:
        raise ValueError


def fail(how: str) -> object:
    match how:
        case "unprintable":
            raise Unprintable
        case "surrogate":
            raise ValueError("\ud800")
        case "exit":
            sys.exit("leaving")
        case "long":
            raise ValueError("x" * 1_000_000)
        case _:
            return object()


def too_large() -> bytes:
    return bytes(1 << 27)


def die(how: str) -> None:
    match how:
        case "exit":
            print("about to leave")
            os._exit(3)
        case "segfault":
            ctypes.string_at(0)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)


def speak() -> str:
    print("to standard output")
    print("to standard error", file=sys.stderr)
    os.write(1, b"\x00\x00\x00\x01 straight to descriptor 1")
    subprocess.run(["echo", "from a grandchild"], check=True)
    print("\ud800 and a surrogate", "x" * 1_000_000)
    return "answer"


def scribble(garbage: bytes) -> str:
    """Write where only the worker itself should."""
    for descriptor in range(3, 64):
        with contextlib.suppress(OSError):
            os.write(descriptor, garbage)
    return "answer"


def read_input() -> str:
    return sys.stdin.read()


def allocate(size: int) -> int:
    return len(bytearray(size))


def compute(seconds: float) -> None:
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass


def leave_a_thread() -> None:
    threading.Thread(target=time.sleep, args=(1000,)).start()


def hold_lock(path: str) -> None:
    """Until this process is dead, and even its zombie does not count, the file stays locked."""
    _take_lock(path)
    hang_in_c()


def hold_lock_idle(path: str) -> None:
    _take_lock(path)


def hold_lock_in_grandchild(path: str, ending: str) -> None:
    descriptor = _take_lock(path)
    sleeper = subprocess.Popen(["sleep", "1000"], pass_fds=(descriptor,))
    os.close(descriptor)
    if ending == "crash":
        os._exit(1)
    if ending == "hang":
        sleeper.wait()


def hang_in_c() -> None:
    """One regular expression that never gives the interpreter back."""
    re.match(r"(a+)+$", "a" * 100 + "b")


def sleep(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


async def coroutine() -> None:
    pass


def _take_lock(path: str) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    os.write(descriptor, b"locked")
    return descriptor


not_callable = 7
