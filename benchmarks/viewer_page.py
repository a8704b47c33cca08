"""The viewer's pages in real Chromium, timed from within.

A script that is there before the page's own notes when something first is in the document, in
seconds since the navigation began, and every task of the main thread that was long enough to be
felt (50 ms, by the browser's own count; a longest task of 0 is shorter than that).
"""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from playwright.sync_api import Browser, Page, sync_playwright

CHROMIUMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
WITHIN = 120_000.0
SETTLING = 1_000.0
VIEWPORT = {"width": 1366, "height": 768}
_WATCH = """(() => {
  const longTasks = [];
  const note = (list) => { for (const task of list.getEntries()) longTasks.push(task.duration); };
  new PerformanceObserver(note).observe({ type: "longtask", buffered: true });
  const observer = new MutationObserver(() => {
    if (!document.querySelector(%s)) return;
    document.documentElement.setAttribute("%s", performance.now());
    observer.disconnect();
  });
  observer.observe(document, { childList: true, subtree: true, attributes: true });
  window.longTasks = longTasks;
})()"""
SHOWN = "data-shown-after"


class Opened(NamedTuple):
    """Seconds since the navigation began, and of the longest task until things settled."""

    seconds: float
    longest_task: float


class Scrolled(NamedTuple):
    """Seconds of each jump until its rows were there; elements of the document at most."""

    jumps: list[float]
    longest_task: float
    elements: int


class Chromium:
    """A browser whose every page is a new one, without anything kept from another."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser

    def open(self, url: str, selector: str) -> float:
        """Seconds until something is in the page. Raises playwright's TimeoutError."""
        with self.page(selector) as page:
            return shown(page, url)

    def open_and_settle(self, url: str, selector: str) -> Opened:
        """The same, and what the page was busy with for a while longer."""
        with self.page(selector) as page:
            seconds = shown(page, url)
            page.wait_for_timeout(SETTLING)
            return Opened(seconds, longest_task(page))

    @contextmanager
    def page(self, selector: str) -> Iterator[Page]:
        """A page that will note when `selector` is first there."""
        context = self._browser.new_context(viewport=VIEWPORT)  # type: ignore[arg-type]
        context.set_default_timeout(WITHIN)
        context.add_init_script(_WATCH % (json.dumps(selector), SHOWN))
        try:
            yield context.new_page()
        finally:
            context.close()


@contextmanager
def chromium() -> Iterator[Chromium]:
    with sync_playwright() as playwright:
        # None: the one that Playwright has installed.
        found = next(filter(None, map(shutil.which, CHROMIUMS)), None)
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        try:
            yield Chromium(browser)
        finally:
            browser.close()


def shown(page: Page, url: str) -> float:
    """Seconds from the beginning of the navigation until what the page waits for was there."""
    page.goto(url, wait_until="commit", timeout=WITHIN)
    page.wait_for_selector(f"html[{SHOWN}]", state="attached")
    return float(page.get_attribute("html", SHOWN) or "nan") / 1000


def longest_task(page: Page) -> float:
    """In seconds, of those since it was last asked."""
    tasks: list[float] = page.evaluate("() => window.longTasks.splice(0)")
    return max(tasks, default=0.0) / 1000


def scroll(page: Page, scroller: str, row: str, jumps: int) -> Scrolled:
    """Jump through a list to its end; `row` selects what every loaded row has."""
    longest_task(page)
    told: dict[str, Any] = page.evaluate(
        """async ({ scroller, row, jumps }) => {
          const box = document.querySelector(scroller);
          const frame = () => new Promise(requestAnimationFrame);
          const isThere = () => {
            const { left, top, width, height } = box.getBoundingClientRect();
            const at = document.elementFromPoint(left + width / 2, top + height / 2);
            return at?.closest("[role=row]")?.querySelector(row);
          };
          const times = [];
          let elements = 0;
          for (let jump = 1; jump <= jumps; jump++) {
            const began = performance.now();
            box.scrollTop = (jump / jumps) * (box.scrollHeight - box.clientHeight);
            await frame();
            while (!isThere() && performance.now() - began < 30_000) await frame();
            times.push((performance.now() - began) / 1000);
            elements = Math.max(elements, document.getElementsByTagName("*").length);
          }
          return { times, elements };
        }""",
        {"scroller": scroller, "row": row, "jumps": jumps},
    )
    return Scrolled(told["times"], longest_task(page), told["elements"])
