"""The browsing that all contenders of `browser` do, and the report of its cost.

A task opens a page, then clicks a link or scrolls, in a new session; every step ends with a PNG of
the screen, and the title and URL of the page. `browser_rollgym`, `browser_playwright` and
`browser_bare` do it, each in a process of its own that imports only what its contender needs.
"""

import asyncio
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable

import msgspec

from benchmarks.process_costs import tree_costs

STEPS = ("visit", "click", "scroll", "click", "scroll")
SCROLL = 400
PNG = b"\x89PNG"


class ContenderCosts(msgspec.Struct):
    """The report of a contender: the CPU seconds of its processes, and what they did."""

    cpu: float
    wall: float
    steps: int
    failed: int
    step_seconds: list[float]
    start_seconds: list[float]
    memory: int
    idle_memory: int


class Tally:
    """The steps so far."""

    def __init__(self) -> None:
        self.failed = 0
        self.step_seconds: list[float] = []
        self.start_seconds: list[float] = []
        self.memory = 0

    async def timed_step(self, step: Awaitable[bool]) -> None:
        began = time.perf_counter()
        self.failed += not await step
        self.step_seconds.append(time.perf_counter() - began)

    def look_at_memory(self) -> None:
        self.memory = max(self.memory, tree_costs(os.getpid()).memory)


Task = Callable[[int, Tally], Awaitable[None]]


async def browse(task: Task, tasks: int, sessions: int, steps: int = len(STEPS)) -> ContenderCosts:
    """Do the tasks, of so many steps each, `sessions` at a time, and count."""
    tally, numbers = Tally(), iter(range(tasks))
    idle = tree_costs(os.getpid()).memory
    began = time.perf_counter()

    async def work() -> None:
        for number in numbers:
            await task(number, tally)

    async with asyncio.TaskGroup() as group:
        for _ in range(sessions):
            group.create_task(work())
    wall = time.perf_counter() - began
    cpu = tree_costs(os.getpid()).cpu
    return ContenderCosts(
        cpu,
        wall,
        tasks * steps,
        tally.failed,
        tally.step_seconds,
        tally.start_seconds,
        tally.memory,
        idle,
    )


def report(contender: Callable[..., Awaitable[ContenderCosts]]) -> None:
    """The main function of a contender: arguments are the URL, the tasks and the sessions."""
    url, *numbers = sys.argv[1:]

    async def run() -> ContenderCosts:
        return await contender(url, *map(int, numbers))

    print(json.dumps(msgspec.to_builtins(asyncio.run(run()))))
