"""A page in real Chromium with our script in it, for tests of the script alone.

Playwright starts the browser and moves the mouse; our script is put into an isolated world and
called as the product does, over the DevTools protocol.
"""

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from playwright.async_api import Browser, CDPSession, Page, Playwright, async_playwright

from webgym.browser.contract.answers import Element
from webgym.browser.page.elements import DocumentGoneError, ElementFacts, StepStart
from webgym.browser.page.script import SOURCE, PageScript

CHROMIUM = shutil.which("chromium-headless-shell") or shutil.which("chromium")
PAGES = Path(__file__).parent / "pages"
PATIENCE = 30.0
LONG_AGO = StepStart(0, 60)
_FLAGS = [
    "--disable-site-isolation-trials",
    "--disable-features=IsolateOrigins,site-per-process",
    "--hide-scrollbars",
]
_NUMBERED = "function (given) { return this.numberedElements(...given); }"
_CALL = "function (name, given) { return this[name](...given); }"

Result = TypeVar("Result")


def takes_text(facts: ElementFacts | None) -> bool:
    return facts is not None and facts.kind in {"text", "rich"} and not facts.readonly


class Screen:
    """One page. It is an `Evaluator`: it calls functions of the script in the current document."""

    def __init__(self, page: Page, session: CDPSession) -> None:
        self.page = page
        self.script = PageScript(self)
        self._session = session
        self._handle: str | None = None
        self.adopted: dict[int, tuple[int, int]] = {}

    async def frame(self, number: int, deadline: float) -> "Screen":
        raise DocumentGoneError("frames of other origins have no script here")

    @property
    def deadline(self) -> float:
        return asyncio.get_running_loop().time() + PATIENCE

    async def show(self, html: str) -> None:
        await self.page.set_content(html)
        self._handle = None

    async def open(self, name: str) -> None:
        await self.page.goto((PAGES / name).as_uri())
        self._handle = None

    async def visit(self, url: str) -> None:
        await self.page.goto(url)
        self._handle = None

    async def elements(self) -> tuple[Element, ...]:
        return await self.script.collect(self.deadline)

    async def element(self, name: str) -> Element:
        """The one element of this name."""
        found = [element for element in await self.elements() if element.name == name]
        assert len(found) == 1, (name, found)
        return found[0]

    async def names(self, *, in_view: bool | None = None) -> list[str]:
        elements = await self.elements()
        return [each.name for each in elements if in_view is None or each.in_view == in_view]

    async def click(self, number: int) -> None:
        place = await self.script.locate(number, self.deadline)
        await self.script.prepare_click(place.x, place.y, self.deadline)
        await self.page.mouse.click(place.x, place.y)

    async def evaluate(
        self, function: str, arguments: list[object], deadline: float, *, wait: bool = False
    ) -> object:
        if self._handle is None:
            self._handle = await self._load()
        answer = await self._session.send(
            "Runtime.callFunctionOn",
            {
                "objectId": self._handle,
                "functionDeclaration": _CALL,
                "arguments": [{"value": function}, {"value": arguments}],
                "returnByValue": True,
                "awaitPromise": wait,
            },
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    async def tree(self) -> bytes:
        """The browser's accessibility tree, as it comes over the wire."""
        return msgspec.json.encode(await self._session.send("Accessibility.getFullAXTree"))

    async def marked_nodes(self) -> dict[int, int]:
        """The number of each marked element by its backend node, as the tree wants it."""
        numbers = [element.id for element in await self.elements() if element.in_view]
        answer = await self._session.send(
            "Runtime.callFunctionOn",
            {
                "objectId": self._handle,
                "functionDeclaration": _NUMBERED,
                "arguments": [{"value": numbers}],
            },
        )
        listed = await self._session.send(
            "Runtime.getProperties",
            {"objectId": answer["result"]["objectId"], "ownProperties": True},
        )
        marks = {}
        for number, entry in zip(numbers, listed["result"], strict=False):
            handle = {"objectId": entry["value"]["objectId"]}
            described = await self._session.send("DOM.describeNode", handle)
            marks[described["node"]["backendNodeId"]] = number
        return marks

    async def _load(self) -> str:
        tree = await self._session.send("Page.getFrameTree")
        world = await self._session.send(
            "Page.createIsolatedWorld", {"frameId": tree["frameTree"]["frame"]["id"]}
        )
        answer = await self._session.send(
            "Runtime.evaluate",
            {"expression": SOURCE, "contextId": world["executionContextId"]},
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return str(answer["result"]["objectId"])


Scene = Callable[[Screen], Awaitable[None]]
Play = Callable[[Scene], None]


class Theatre:
    """One browser for many tests, on an event loop of its own."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self._playwright: Playwright | None = None
        self._browser: Browser | None = None

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        async def bounded() -> Result:
            async with asyncio.timeout(PATIENCE):
                return await work

        return self._runner.run(bounded())

    def open(self) -> None:
        self.run(self._open())

    def close(self) -> None:
        self.run(self._close())
        self._runner.close()

    async def play(self, scene: Scene) -> None:
        assert self._browser is not None
        page = await self._browser.new_page(viewport={"width": 1280, "height": 768})
        try:
            await scene(Screen(page, await page.context.new_cdp_session(page)))
        finally:
            await page.close()

    async def _open(self) -> None:
        self._playwright = await async_playwright().start()
        self._browser = await self._playwright.chromium.launch(
            executable_path=CHROMIUM, args=_FLAGS, chromium_sandbox=False
        )

    async def _close(self) -> None:
        if self._browser is not None:
            await self._browser.close()
        if self._playwright is not None:
            await self._playwright.stop()
