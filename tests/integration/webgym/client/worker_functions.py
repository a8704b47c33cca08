"""What the isolated workers of these tests are made to do."""

import os
import time
from pathlib import Path


def process_id() -> int:
    return os.getpid()


def announce_and_hang(path: str) -> None:
    """Write the process id, then hold the interpreter for a long time."""
    Path(path).write_text(str(os.getpid()))
    time.sleep(3600)


def eat_memory() -> int:
    """Take more than any ceiling allows."""
    eaten = []
    while True:
        eaten.append(bytearray(1 << 24))


def crash() -> None:
    os.abort()


def divide_by_zero() -> float:
    return 1 / 0
