"""Carrying out commands: what each means in the current tab."""

import asyncio
import base64
from collections.abc import Callable

import msgspec

from webgym.browser.contract.answers import Observe
from webgym.browser.contract.commands import (
    Back,
    Command,
    GetAccessibilityTree,
    GetInteractiveRects,
    GetPageMetadata,
    GetScreenshotInfo,
    GetWebpageText,
    Screenshot,
    Sleep,
    VisitPage,
)
from webgym.browser.contract.errors import CommandError
from webgym.browser.page.accessibility import accessibility_tree
from webgym.browser.page.errors import DocumentGoneError
from webgym.browser.page.gestures import act
from webgym.browser.page.navigation import go_back, visit
from webgym.browser.page.observer import Observer
from webgym.browser.page.script import PageScript
from webgym.browser.page.settle import settle
from webgym.browser.page.tab import Tab
from webgym.browser.page.tabs import Tabs

Result = dict[str, object]


class Performer:
    """The hands of a session. `check_url` refuses what may not be opened."""

    def __init__(self, tabs: Tabs, observer: Observer, check_url: Callable[[str], str]) -> None:
        self._tabs = tabs
        self._observer = observer
        self._check_url = check_url

    async def perform(self, command: Command, deadline: float) -> Result:
        """What the command answers. Raises CommandError where the page does not allow it.

        Raises DocumentGoneError when the page goes on to another in the middle of an action: what
        it meant is gone, and nothing is done to the next page instead.
        """
        tab = await self._begin(command, deadline)
        try:
            return await self._perform(command, tab, deadline)
        except DocumentGoneError:
            if command.acts:
                raise
            tab = await self._begin(command, deadline)
            return await self._perform(command, tab, deadline)

    async def _begin(self, command: Command, deadline: float) -> Tab:
        """The tab to do it in. One that is between two pages comes to rest first."""
        tab = await self._tabs.provide(deadline)
        if tab.activity.is_requested and not isinstance(command, VisitPage | Back | Sleep):
            await settle(lambda: self._tabs.current, deadline)
            tab = await self._tabs.provide(deadline)
        if command.acts:
            tab.begin_step()
        tab.hear_dialogs()
        return tab

    async def _perform(self, command: Command, tab: Tab, deadline: float) -> Result:
        match command:
            case VisitPage():
                await self._visit(tab, self._check_url(command.url), deadline)
            case Back():
                return await self._back(tab, deadline)
            case Sleep():
                await _sleep(command.duration, deadline)
            case _ if not command.acts:
                return await self._read(command, tab, deadline)
            case _:
                return await act(command, tab, deadline)
        return {"status": "success"}

    async def _visit(self, tab: Tab, url: str, deadline: float) -> None:
        if not await visit(tab, url, deadline):
            await visit(await self._tabs.replace(tab, deadline), url, deadline)

    async def _back(self, tab: Tab, deadline: float) -> Result:
        moved = await go_back(tab, deadline)
        if not moved and len(self._tabs) > 1:
            self._tabs.close(tab)
            moved = True
        return {"status": "success", "moved": moved}

    async def _read(self, command: Command, tab: Tab, deadline: float) -> Result:
        script = PageScript(tab.world)
        match command:
            case GetWebpageText():
                return {"text": await script.text(command.n_lines, deadline)}
            case GetInteractiveRects():
                elements = await script.collect(deadline)
                return {str(element.id): msgspec.to_builtins(element) for element in elements}
            case GetPageMetadata():
                page = await self._observer.page_info(tab, deadline)
                about = await script.metadata(deadline)
                return {**about, **msgspec.to_builtins(page)}
            case GetAccessibilityTree():
                return {"tree": await accessibility_tree(tab, deadline)}
            case Screenshot():
                return await self._screenshot(command, deadline)
            case GetScreenshotInfo():
                return self._last_screenshot()
        raise NotImplementedError(command.command)

    async def _screenshot(self, command: Screenshot, deadline: float) -> Result:
        seen = await self._observer.look(Observe(command.interaction_mode), deadline)
        if seen.picture is None:
            raise CommandError("no screenshot could be taken")
        return {
            "status": "screenshot_taken",
            "media_type": seen.picture.media_type,
            "screenshot": base64.b64encode(seen.picture.data).decode(),
        }

    def _last_screenshot(self) -> Result:
        seen = self._observer.last
        if seen is None:
            raise CommandError("no screenshot was taken yet")
        return {
            "page": msgspec.to_builtins(seen.page),
            "elements": msgspec.to_builtins(seen.elements),
        }


async def _sleep(seconds: float, deadline: float) -> None:
    left = deadline - asyncio.get_running_loop().time()
    if seconds > left:
        raise CommandError(f"sleeping {seconds:g} s would pass the request's deadline")
    await asyncio.sleep(seconds)
