"""The same browsing in two ways, each in a separate process that reports its cost.

A task opens a page, then clicks a link or scrolls, in a new session; every step ends with a PNG of
the screen, and the title and URL of the page.

    python -m benchmarks.browser_contenders rollgym|playwright URL TASKS SESSIONS
"""

import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
from playwright.async_api import Browser, Page, async_playwright
from playwright.async_api import Error as PlaywrightError

from benchmarks.browser_pages import LINK_AT, PAGES
from benchmarks.process_costs import tree_costs
from webgym.browser.chromium.command_line import command_line
from webgym.browser.chromium.executable import find_browser
from webgym.browser.contract.answers import Observe
from webgym.browser.contract.commands import ClickCoords, Command, PageDown, VisitPage
from webgym.browser.guard.guard import GUARDED_FLAGS
from webgym.client.client import BrowserClient

STEPS = ("visit", "click", "scroll", "click", "scroll")
NAVIGATION_BEGINS_WITHIN = 80
SCROLL = 400
PNG = b"\x89PNG"
PATIENCE = 60.0
_OF_THE_GUARD = frozenset(GUARDED_FLAGS)
"""They lead nowhere without the proxies that our server gives to its sessions."""


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


async def browse(task: Task, tasks: int, sessions: int) -> ContenderCosts:
    """Do the tasks, `sessions` at a time, and count."""
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
        tasks * len(STEPS),
        tally.failed,
        tally.step_seconds,
        tally.start_seconds,
        tally.memory,
        idle,
    )


async def with_rollgym(url: str, tasks: int, sessions: int) -> ContenderCosts:
    """Our server in a process of its own, our client in this one."""
    async with server(sessions) as address, BrowserClient(address) as client:
        observe = Observe("coordinates", "png")

        async def task(number: int, tally: Tally) -> None:
            began = time.perf_counter()
            async with client.session() as session:
                tally.start_seconds.append(time.perf_counter() - began)

                async def step(command: Command) -> bool:
                    answer = await session.step(command, observe)
                    picture = answer.screenshot
                    taken = picture is not None and picture.data.startswith(PNG)
                    return answer.error is None and taken and bool(answer.page.title)

                for index in range(len(STEPS)):
                    await tally.timed_step(step(command_for(index, url, number)))
                tally.look_at_memory()

        return await browse(task, tasks, sessions)


def command_for(step: int, url: str, number: int) -> Command:
    """What to do in a task's step; longer tasks begin again."""
    match STEPS[step % len(STEPS)]:
        case "visit":
            return VisitPage(f"{url}/page/{number % PAGES}")
        case "click":
            return ClickCoords(*LINK_AT)
        case _:
            return PageDown(SCROLL)


@asynccontextmanager
async def server(sessions: int) -> AsyncIterator[str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "webgym.browser", "serve", "--port", "0"),
        *("--capacity", str(sessions), "--allow-network", "127.0.0.1"),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            said = (await process.stdout.readline()).decode()
        yield next(word.rstrip(":,;") for word in said.split() if word.startswith("http://"))
    finally:
        process.terminate()
        await process.wait()


async def with_playwright(url: str, tasks: int, sessions: int) -> ContenderCosts:
    """A plain script: one browser, a context for each task.

    It has the browser binary and the flags of our server, in place of Playwright's own.
    """
    found = find_browser()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        flags = [
            flag
            for flag in command_line(found, Path(folder) / "profile")[1:]
            if flag not in _OF_THE_GUARD
        ]
        return await _with_playwright(str(found.path), flags, (url, tasks, sessions))


async def _with_playwright(
    program: str, flags: list[str], wanted: tuple[str, int, int]
) -> ContenderCosts:
    url, tasks, sessions = wanted
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=program, args=flags, ignore_default_args=True
        )

        async def task(number: int, tally: Tally) -> None:
            await _play(browser, url, number, tally)

        told = await browse(task, tasks, sessions)
        await browser.close()
        return told


async def _play(browser: Browser, url: str, number: int, tally: Tally) -> None:
    began = time.perf_counter()
    context = await browser.new_context(viewport={"width": 1280, "height": 768})
    page = await context.new_page()
    tally.start_seconds.append(time.perf_counter() - began)
    for kind in STEPS:
        await tally.timed_step(_played(page, kind, f"{url}/page/{number % PAGES}"))
    tally.look_at_memory()
    await context.close()


async def _played(page: Page, kind: str, url: str) -> bool:
    try:
        match kind:
            case "visit":
                await page.goto(url)
            case "click":
                await _click(page)
            case _:
                await page.mouse.wheel(0, SCROLL)
        taken = (await page.screenshot(type="png")).startswith(PNG)
        return taken and bool(await page.title()) and bool(page.url)
    except PlaywrightError:
        return False


async def _click(page: Page) -> None:
    """Click, and wait for the navigation if one begins soon."""
    try:
        async with page.expect_request(
            lambda request: request.is_navigation_request(), timeout=NAVIGATION_BEGINS_WITHIN
        ):
            await page.mouse.click(*LINK_AT)
    except PlaywrightError:
        return
    await page.wait_for_load_state("load")


CONTENDERS = {"rollgym": with_rollgym, "playwright": with_playwright}


def main() -> None:
    name, url, tasks, sessions = sys.argv[1:5]
    told = asyncio.run(CONTENDERS[name](url, int(tasks), int(sessions)))
    print(json.dumps(msgspec.to_builtins(told)))


if __name__ == "__main__":
    main()
