"""A program whose processes freeze, crash or are killed while they collect.

usage: python -m tests.integration.engine.dying MODE DIRECTORY

Each process is forked from this one and collects the run in DIRECTORY until it ends. Then this
program prints, for each of them, the tasks in the order in which they were recorded.
"""

import asyncio
import json
import os
import signal
import sys
import time
from pathlib import Path

from rollgym.engine import Fixed, Policy, WorkItem, collect, run, runner
from rollgym.records import Completed, Outcome
from rollgym.store import open_run
from tests.builders import read_json_lines, tasks

TASKS, PARALLEL, BAD = 8, 4, 2
LIVES = 4
PATIENCE = 60.0


class Worker:
    """Waits until several rollouts are in flight; then the bad one does what the mode says."""

    def __init__(self, mode: str) -> None:
        self._mode = mode
        self._running = 0

    async def __call__(self, item: WorkItem, attempt: int, deadline: float) -> Outcome:
        self._running += 1
        try:
            await asyncio.sleep(0.05)
            if self._mode == "killed":
                await asyncio.sleep(PATIENCE)
            if item.task.index == BAD and self._mode == "crash":
                os.kill(os.getpid(), signal.SIGSEGV)
            while item.task.index == BAD and self._mode == "freeze":
                time.sleep(0.01)  # noqa: ASYNC251 - this is the bug
            return Completed(1.0)
        finally:
            self._running -= 1


async def _collect(mode: str, directory: Path) -> None:
    with open_run(directory, tasks(TASKS)) as store:
        policy = Policy(concurrency=Fixed(PARALLEL))
        await collect(store.inputs, Worker(mode), store, policy)


def _live(mode: str, directory: Path) -> None:
    """One process: forked, and killed once it hangs."""
    process = os.fork()
    if process == 0:
        run(_collect(mode, directory))
        os._exit(0)
    began, until = time.time_ns(), time.monotonic() + PATIENCE
    while os.waitpid(process, os.WNOHANG) == (0, 0):
        if _hangs(mode, directory, began) or time.monotonic() > until:
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
            return
        time.sleep(0.01)


def _hangs(mode: str, directory: Path, began: int) -> bool:
    name = {"freeze": ".journal.blocked", "killed": ".journal.in-flight"}.get(mode)
    path = directory / name if name else None
    if path is None or not path.exists() or path.stat().st_mtime_ns < began:
        return False
    text = path.read_text()
    if mode == "freeze":  # a slow machine may also stop for a moment elsewhere
        return f'"rollouts":[[{BAD},0]]' in text
    return len([line for line in text.splitlines() if line.strip()]) == 1 + PARALLEL


def main() -> None:
    mode, directory = sys.argv[1], Path(sys.argv[2])
    if mode == "freeze":
        runner.BLOCKED_AFTER, runner.PING_INTERVAL = 0.2, 0.02
    lives = []
    for _ in range(LIVES):
        _live(mode, directory)
        lives.append(
            [
                (line["task"], line["outcome"].get("failure", {}).get("kind"), line["final"])
                for line in read_json_lines(directory / "journal.jsonl")
            ]
        )
    print(json.dumps(lives))


if __name__ == "__main__":
    main()
