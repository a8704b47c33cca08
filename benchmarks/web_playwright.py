"""The episodes of a run played again by a plain Playwright script.

As people write it, with the browser binary and flags of our server: one browser, a context for each
episode, every action at the place on the screen where it was in the run, then a PNG of the screen,
the title and URL of the page, and what stands on it (`aria_snapshot`), because a step of the run
observes that too. Nobody numbers elements here and lists where they are, which the run's steps did
as well.

Nothing thinks between the actions. The addresses of the pages are compared with those of the run,
to tell whether it is the same browsing.

    python -m benchmarks.web_playwright RUN SESSIONS    # RUN is the run's directory
"""

import asyncio
import os
import sys
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import msgspec
from playwright.async_api import Browser, Page
from playwright.async_api import Error as PlaywrightError

from benchmarks.browser_playwright import VIEWPORT, launched
from benchmarks.process_costs import tree_costs
from rollgym.records import Completed
from rollgym.store import journal_paths, read_records
from webgym.context.page_text import read_page
from webgym.trajectory.records import ActionRecord, Step, Trajectory

NAVIGATION_BEGINS_WITHIN = 200
ACTION_SECONDS = 15.0
SCROLL = 700
MIDDLE = (VIEWPORT["width"] // 2, VIEWPORT["height"] // 2)


class Played(msgspec.Struct, frozen=True):
    """What it cost: CPU seconds of all its processes. `steps` are those of the run.

    `same` of the `pages` that it saw are those of the run.
    """

    cpu: float
    steps: int
    pages: int
    same: int


async def play_again(run: Path, sessions: int) -> Played:
    """Play all episodes of the run, `sessions` at a time."""
    trajectories = list(_trajectories(run))
    left, same = iter(trajectories), list[bool]()
    async with launched() as browser:

        async def work() -> None:
            for trajectory in left:
                same.extend(await _play(browser, trajectory))

        async with asyncio.TaskGroup() as group:
            for _ in range(sessions):
                group.create_task(work())
        cpu = tree_costs(os.getpid()).cpu
    steps = sum(len(trajectory.steps) for trajectory in trajectories)
    return Played(cpu, steps, len(same), sum(same))


def _trajectories(run: Path) -> Iterator[Trajectory]:
    for entry, stands in read_records(journal_paths(run)):
        outcome = entry.attempt.outcome
        if stands and isinstance(outcome, Completed):
            yield msgspec.json.decode(outcome.result, type=Trajectory)


async def _play(browser: Browser, trajectory: Trajectory) -> list[bool]:
    """Of each step, whether it saw the page that it saw in the run."""
    context = await browser.new_context(viewport=VIEWPORT)
    context.set_default_timeout(ACTION_SECONDS * 1000)
    page = await context.new_page()
    fresh = trajectory.start_url.replace(trajectory.session, uuid4().hex)
    await page.goto(fresh)
    same = []
    for step in trajectory.steps:
        await _look(page)
        same.append(urlsplit(page.url).path == urlsplit(step.observation.page.url).path)
        try:
            await _act(page, step)
        except PlaywrightError:
            continue  # the script goes on, and the addresses tell
    await context.close()
    return same


async def _look(page: Page) -> None:
    try:
        await page.screenshot(type="png")
        await page.title()
        await page.locator("body").aria_snapshot()
    except PlaywrightError:
        return  # the page went away meanwhile


async def _act(page: Page, step: Step) -> None:
    """Do what was done in the run. Raises PlaywrightError."""
    action = step.action or ActionRecord(key="")
    at, given = await _in_view(page, action.pixel or MIDDLE), action.arguments
    match action.key:
        case "click":
            await _and_load(page, page.mouse.click(*at))
        case "hover":
            await page.mouse.move(*at)
        case "type":
            await page.mouse.click(*at, click_count=3)
            await page.keyboard.type(str(given["text"]))
            await _and_load(page, page.keyboard.press("Enter"))
        case "select":
            name, option = _chosen(step)
            await page.get_by_label(name).first.select_option(label=option)
        case "scroll" | "hover_and_scroll":
            await page.mouse.move(*at)
            await page.mouse.wheel(0, SCROLL if given["direction"] == "down" else -SCROLL)
        case "wait":
            await asyncio.sleep(float(str(given["time"])))
        case "goback":
            await page.go_back()
        case "navigate":
            await page.goto(str(given["url"]))


async def _in_view(page: Page, at: tuple[int, int]) -> tuple[int, int]:
    """The place on the screen, once what is below it was scrolled up."""
    x, y = at
    if y < VIEWPORT["height"]:
        return at
    await page.evaluate("by => scrollBy({top: by, behavior: 'instant'})", y - MIDDLE[1])
    return x, MIDDLE[1]


async def _and_load(page: Page, act: Coroutine[Any, Any, None]) -> None:
    """Act, and wait for the navigation if one begins soon."""
    try:
        async with page.expect_request(
            lambda request: request.is_navigation_request(), timeout=NAVIGATION_BEGINS_WITHIN
        ) as begun:
            await act
        await (await begun.value).response()
    except PlaywrightError:
        return
    await page.wait_for_load_state("load")


def _chosen(step: Step) -> tuple[str, str]:
    """The names of the list and of the option that the number in the run's action meant."""
    prompt = step.response.raw_prompt[-1] if step.response else {}
    message = msgspec.convert(prompt, _Message)
    shown = next(filter(None, (read_page(part.text) for part in message.content)), None)
    number = (step.action or ActionRecord(key="")).arguments["element_id"]
    for element in shown.elements if shown else ():
        for option in element.options:
            if option.id == number:
                return element.name, option.text
    raise PlaywrightError(f"the run's prompt shows no option {number}")


class _Part(msgspec.Struct):
    text: str = ""


class _Message(msgspec.Struct):
    content: list[_Part]


def main() -> None:
    run, sessions = sys.argv[1:3]
    played = asyncio.run(play_again(Path(run), int(sessions)))
    print(msgspec.json.encode(played).decode())


if __name__ == "__main__":
    main()
