"""The browsing of `browser_contenders` by a plain Playwright script.

It has the browser binary and the flags of our server, in place of Playwright's own.

    python -m benchmarks.browser_playwright URL TASKS SESSIONS
"""

import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from playwright.async_api import Browser, Page, ViewportSize, async_playwright
from playwright.async_api import Error as PlaywrightError

from benchmarks.browser_contenders import PNG, SCROLL, STEPS, ContenderCosts, Tally, browse, report
from benchmarks.browser_pages import LINK_AT, PAGES
from webgym.browser.chromium.command_line import command_line
from webgym.browser.chromium.executable import find_browser
from webgym.browser.guard.guard import GUARDED_FLAGS

NAVIGATION_BEGINS_WITHIN = 80
VIEWPORT = ViewportSize(width=1280, height=768)
_OF_THE_GUARD = frozenset(GUARDED_FLAGS)
"""They lead nowhere without the proxies that our server gives to its sessions."""


@asynccontextmanager
async def launched() -> AsyncIterator[Browser]:
    """The browser that our server would start, with its flags, under Playwright."""
    found = find_browser()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        line = command_line(found, Path(folder) / "profile")
        flags = [flag for flag in line[1:] if flag not in _OF_THE_GUARD]
        async with async_playwright() as playwright:
            browser = await playwright.chromium.launch(
                executable_path=str(found.path), args=flags, ignore_default_args=True
            )
            yield browser
            await browser.close()


async def with_playwright(url: str, tasks: int, sessions: int) -> ContenderCosts:
    """A plain script: one browser, a context for each task."""
    async with launched() as browser:

        async def task(number: int, tally: Tally) -> None:
            await _play(browser, url, number, tally)

        return await browse(task, tasks, sessions)


async def _play(browser: Browser, url: str, number: int, tally: Tally) -> None:
    began = time.perf_counter()
    context = await browser.new_context(viewport=VIEWPORT)
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


if __name__ == "__main__":
    report(with_playwright)
