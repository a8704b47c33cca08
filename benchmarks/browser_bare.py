"""The browsing of `browser_contenders` with as little as a DevTools client can do: the floor.

It has no server, network guard, early script or settling. It opens a context and a tab, sends
input, waits for a navigation and its load event as the Playwright script does, and takes a PNG as
our server does. What it costs is the work of the browser itself.

    python -m benchmarks.browser_bare URL TASKS SESSIONS
"""

import asyncio
import time

import msgspec

from benchmarks.browser_contenders import SCROLL, STEPS, ContenderCosts, Tally, browse, report
from benchmarks.browser_pages import LINK_AT, PAGES
from benchmarks.browser_playwright import NAVIGATION_BEGINS_WITHIN, VIEWPORT
from webgym.browser.chromium.executable import find_browser
from webgym.browser.chromium.process import Chromium

PATIENCE = 60.0
BASE64_OF_PNG = "iVBORw0KGgo"
Params = dict[str, object]
_LINK = {"x": LINK_AT[0], "y": LINK_AT[1]}
_PRESSED = {"button": "left", "clickCount": 1, **_LINK}
_CLICK = (
    {"type": "mouseMoved", **_LINK},
    {"type": "mousePressed", **_PRESSED},
    {"type": "mouseReleased", **_PRESSED},
)
_WHEEL = {"type": "mouseWheel", **_LINK, "deltaX": 0, "deltaY": SCROLL}


class BareTab:
    """A tab in a context of its own."""

    def __init__(self, chromium: Chromium) -> None:
        self._connection = chromium.connection
        self._session: str | None = None
        self._context: object = None
        self._events: dict[str, asyncio.Event] = {}

    async def open(self) -> None:
        context = await self._call("Target.createBrowserContext", {"proxyServer": "direct://"})
        self._context = context["browserContextId"]
        blank = {"url": "about:blank", "browserContextId": self._context, **VIEWPORT}
        target = await self._call("Target.createTarget", blank)
        attached = await self._call(
            "Target.attachToTarget", {"targetId": target["targetId"], "flatten": True}
        )
        self._session = str(attached["sessionId"])
        self._connection.listen(self._session, lambda method, _: self._event(method).set())
        await self._call("Page.enable")

    async def close(self) -> None:
        self._connection.unlisten(self._session)
        self._session = None
        await self._call("Target.disposeBrowserContext", {"browserContextId": self._context})

    async def play(self, kind: str, url: str) -> bool:
        self._events.clear()
        match kind:
            case "visit":
                await self._call("Page.navigate", {"url": url})
                await self._event("Page.loadEventFired").wait()
            case "click":
                for event in _CLICK:
                    self._connection.send("Input.dispatchMouseEvent", event, session=self._session)
                if await self._happens("Page.frameRequestedNavigation"):
                    await self._event("Page.loadEventFired").wait()
            case _:
                await self._call("Input.dispatchMouseEvent", _WHEEL)
        taken = await self._call(
            "Page.captureScreenshot", {"format": "png", "optimizeForSpeed": True}
        )
        title = await self._call("Runtime.evaluate", {"expression": "document.title"})
        return str(taken["data"]).startswith(BASE64_OF_PNG) and bool(title["result"])

    def _event(self, method: str) -> asyncio.Event:
        return self._events.setdefault(method, asyncio.Event())

    async def _happens(self, method: str) -> bool:
        try:
            async with asyncio.timeout(NAVIGATION_BEGINS_WITHIN / 1000):
                return await self._event(method).wait()
        except TimeoutError:
            return False

    async def _call(
        self, method: str, params: dict[str, object] | None = None
    ) -> dict[str, object]:
        deadline = asyncio.get_running_loop().time() + PATIENCE
        answer = await self._connection.call(
            method, params, session=self._session, deadline=deadline
        )
        return msgspec.json.decode(answer, type=dict[str, object])


async def with_bare_client(url: str, tasks: int, sessions: int) -> ContenderCosts:
    """One browser, a context for each task."""
    deadline = asyncio.get_running_loop().time() + PATIENCE
    chromium = await Chromium.launch(find_browser(), deadline)
    chromium.connection.unlisten(None)
    await chromium.connection.call(
        "Target.setAutoAttach",
        {"autoAttach": False, "waitForDebuggerOnStart": False, "flatten": True},
        deadline=deadline,
    )

    async def task(number: int, tally: Tally) -> None:
        tab, began = BareTab(chromium), time.perf_counter()
        await tab.open()
        tally.start_seconds.append(time.perf_counter() - began)
        for kind in STEPS:
            await tally.timed_step(tab.play(kind, f"{url}/page/{number % PAGES}"))
        tally.look_at_memory()
        await tab.close()

    try:
        return await browse(task, tasks, sessions)
    finally:
        await chromium.close()


if __name__ == "__main__":
    report(with_bare_client)
