"""The real `rollgym` command, run in a process of its own as a user would."""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROLLGYM = Path(sys.executable).with_name("rollgym")
PATIENCE = 100.0


class Ended:
    """What a command left: exit status, stdout, stderr."""

    def __init__(self, status: int, stdout: str, stderr: str) -> None:
        self.status = status
        self.stdout = stdout
        self.stderr = stderr

    @property
    def text(self) -> str:
        """Everything that was said."""
        return self.stdout + self.stderr

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @property
    def headline(self) -> dict[str, Any]:
        """The block of JSON."""
        block = re.search(r"^\{$.*?^\}$", self.stdout, re.MULTILINE | re.DOTALL)
        assert block, self.stdout + self.stderr
        numbers: dict[str, Any] = json.loads(block[0])
        return numbers

    @property
    def coverage(self) -> str:
        """The line that adds up."""
        return next(line for line in self.lines if " expected = " in line)


def start(folder: Path, *arguments: str | Path) -> "subprocess.Popen[str]":
    environment = {name: value for name, value in os.environ.items() if name != "FORCE_COLOR"}
    return subprocess.Popen(
        [ROLLGYM, *arguments],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: "subprocess.Popen[str]") -> Ended:
    """Wait for the end of the command; one that does not end in time is killed."""
    with process:
        try:
            stdout, stderr = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    return Ended(process.returncode, stdout, stderr)


def rollgym(folder: Path, *arguments: str | Path) -> Ended:
    """Run the command in `folder` to its end."""
    return finish(start(folder, *arguments))


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, "it did not come to that in time"
        time.sleep(0.02)


def wait_for_records(directory: Path, count: int, journal: str = "journal.jsonl") -> None:
    wait_until(lambda: len(records(directory, journal)) >= count)


def records(directory: Path, journal: str = "journal.jsonl") -> list[dict[str, Any]]:
    """Every whole line of a journal."""
    try:
        text = (directory / journal).read_text()
    except FileNotFoundError:
        return []
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def ends(directory: Path, journal: str = "journal.jsonl") -> list[tuple[int, int]]:
    """The rollouts that ended, once for each final record."""
    return sorted(
        (row["task"], row["repeat"]) for row in records(directory, journal) if row["final"]
    )
