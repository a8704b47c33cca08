"""A real viewer over given paths, and a real Chromium in front of it.

The viewer runs in a thread of its own with its own event loop; the browser is started once for a
module. A `Visit` is a page that remembers everything that went wrong in it: errors of scripts,
lines on the console, and requests that went to another server than the viewer. All of them make
its test fail.
"""

import asyncio
import threading
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest
import uvloop
from playwright.sync_api import Browser, Page, sync_playwright

from rollgym.viewer.server import serving
from webgym.browser.chromium.executable import NoBrowserError, find_browser

PATIENCE = 20.0
LAPTOP = (1280, 800)
PHONE = (390, 844)
Theme = Literal["light", "dark"]


class Viewer:
    """A viewer that runs. `root` is its address, without a slash at the end."""

    def __init__(self, root: str) -> None:
        self.root = root

    def body(self, path: str) -> bytes:
        with urllib.request.urlopen(self.root + path, timeout=PATIENCE) as answer:
            return bytes(answer.read())

    def json(self, path: str) -> Any:
        return msgspec.json.decode(self.body(path))

    def sources(self) -> list[str]:
        """The ids of what is open."""
        return [source["id"] for source in self.json("/api/sources")["sources"]]


@contextmanager
def viewing(paths: Sequence[Path]) -> Iterator[Viewer]:
    """A viewer that has read everything at the paths."""
    roots: list[str] = []
    errors: list[BaseException] = []
    started = threading.Event()
    loop = uvloop.new_event_loop()  # as the command; asyncio's leaks a page's last connection
    end = asyncio.Event()

    async def serve() -> None:
        try:
            async with serving(paths, "127.0.0.1", 0) as root:
                roots.append(root.partition("?")[0].rstrip("/"))
                started.set()
                await end.wait()
        except BaseException as error:
            errors.append(error)
            raise
        finally:
            started.set()

    def run() -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(serve())

    thread = threading.Thread(target=run, name="viewer", daemon=True)
    thread.start()
    try:
        assert started.wait(PATIENCE), "the viewer did not start"
        if errors:
            raise errors[0]
        viewer = Viewer(roots[0])
        _wait_until(lambda: all(_is_read(one) for one in viewer.json("/api/sources")["sources"]))
        yield viewer
    finally:
        if thread.is_alive():
            loop.call_soon_threadsafe(end.set)
        thread.join(PATIENCE)
    assert not thread.is_alive(), "the viewer did not end"


@contextmanager
def chromium() -> Iterator[Browser]:
    """The browser; skips the test where there is none."""
    try:
        found = find_browser()
    except NoBrowserError as error:
        pytest.skip(str(error))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=str(found.path), args=["--no-sandbox"], timeout=PATIENCE * 1000
        )
        try:
            yield browser
        finally:
            browser.close()


class Visit:
    """A page in front of a viewer."""

    def __init__(self, page: Page, viewer: Viewer) -> None:
        self.page = page
        self.viewer = viewer
        self.problems: list[str] = []
        page.on("pageerror", lambda error: self.problems.append(f"script: {error}"))
        page.on("console", lambda line: self._said(line.type, line.text))
        page.on("request", lambda request: self._asked(request.url))

    def go(self, path: str) -> Page:
        """Open a path of the viewer; its view has begun then, and hears keys."""
        self.page.goto(self.viewer.root + path)
        self.page.wait_for_selector("main > *", state="attached")
        return self.page

    @property
    def path(self) -> str:
        """Where the page is, without the viewer's address."""
        return self.page.url.removeprefix(self.viewer.root)

    def _said(self, kind: str, text: str) -> None:
        if kind in {"error", "warning"}:
            self.problems.append(f"console: {text}")

    def _asked(self, url: str) -> None:
        if not url.startswith((self.viewer.root + "/", "data:")):
            self.problems.append(f"request: {url}")


@contextmanager
def visiting(
    browser: Browser, viewer: Viewer, size: tuple[int, int] = LAPTOP, theme: Theme = "light"
) -> Iterator[Visit]:
    """A page with no history. Fails where anything went wrong in it, however well it ended."""
    width, height = size
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=theme, reduced_motion="reduce"
    )
    context.set_default_timeout(PATIENCE * 1000)
    try:
        visit = Visit(context.new_page(), viewer)
        yield visit
        assert visit.problems == []
    finally:
        context.close()


def overflows(page: Page) -> bool:
    """Whether the page as a whole can be scrolled sideways."""
    return bool(
        page.evaluate(
            "Math.max(document.documentElement.scrollWidth,"
            " document.querySelector('main').scrollWidth) > innerWidth"
        )
    )


def _is_read(source: dict[str, Any]) -> bool:
    return bool(source["state"]["ready"])


def _wait_until(holds: Callable[[], bool]) -> None:
    waited = threading.Event()
    for _ in range(int(PATIENCE / 0.05)):
        if holds():
            return
        waited.wait(0.05)
    raise AssertionError("the viewer did not read its files in time")
