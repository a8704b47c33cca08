"""Observing a page: its state, its screenshot, its elements and its tree, all of one document.

If the page navigates in the middle, the observation is repeated. Of a page that never stops
navigating, only what the browser itself knows is returned.

Chromium cannot take a screenshot while a page is being replaced by another, and then answers with
an error or not at all. Neither is a failure of the page: the screenshot is repeated after the page
has changed, before the deadline.
"""

import asyncio
from contextlib import suppress

import msgspec

from webgym.browser.chromium.connection import CallError
from webgym.browser.contract.answers import Element, ImageFormat, Observe, PageInfo, Picture
from webgym.browser.contract.errors import PageCrashedError
from webgym.browser.page.accessibility import accessibility_tree
from webgym.browser.page.elements import DocumentGoneError, PageScriptError
from webgym.browser.page.script import PageScript
from webgym.browser.page.settle import settle
from webgym.browser.page.tab import Tab
from webgym.browser.page.tabs import SessionTabs

SCREENSHOT_SECONDS = 5.0
RETRY_AFTER = 0.1


class _Captured(msgspec.Struct):
    data: bytes


_READ_CAPTURED = msgspec.json.Decoder(_Captured).decode


async def take_screenshot(
    tab: Tab, image_format: ImageFormat, quality: int, deadline: float
) -> Picture:
    """A screenshot of the viewport. Raises TimeoutError if there is none by the deadline."""
    now = asyncio.get_running_loop().time
    params: dict[str, object] = {"format": image_format, "optimizeForSpeed": image_format == "png"}
    if image_format != "png":
        params["quality"] = quality
    while True:
        try:
            soon = min(deadline, now() + SCREENSHOT_SECONDS)
            answer = await tab.call("Page.captureScreenshot", params, deadline=soon)
            return Picture(f"image/{image_format}", _READ_CAPTURED(answer).data)
        except (CallError, TimeoutError) as error:
            if now() >= deadline:
                raise TimeoutError(f"no screenshot before the deadline: {error}") from error
        await tab.activity.changed(min(RETRY_AFTER, deadline - now()))


ATTEMPTS = 3
RESETTLE_SECONDS = 5.0
FALLBACK_SECONDS = 3.0
ERASE_SECONDS = 1.0


class PageObservation(msgspec.Struct, frozen=True):
    """The result of observing a page."""

    page: PageInfo
    picture: Picture | None = None
    elements: tuple[Element, ...] = ()
    tree: str | None = None


class PageObserver:
    """Observes the current page of a session."""

    def __init__(self, tabs: SessionTabs) -> None:
        self._tabs = tabs
        self.last: PageObservation | None = None
        """The last observation with a screenshot."""

    async def observe(self, observe: Observe, deadline: float) -> PageObservation:
        """Raises TimeoutError for a page that does not answer, and PageCrashedError."""
        now = asyncio.get_running_loop().time
        for attempt in range(1, ATTEMPTS + 1):
            tab = await self._tabs.current_or_blank(deadline)
            document = tab.activity.document
            tab.enable_dialog_reports()
            with suppress(DocumentGoneError, PageScriptError):
                observation = await self._observe(tab, observe, deadline)
                if document == tab.activity.document or attempt == ATTEMPTS:
                    break
            await settle(lambda: self._tabs.current, min(deadline, now() + RESETTLE_SECONDS))
        else:
            observation = await self._observe_without_script(observe, deadline)
        if observation.picture is not None:
            self.last = observation
        return observation

    async def page_info(self, tab: Tab, deadline: float) -> PageInfo:
        info = await PageScript(tab.world).page_info(deadline)
        tab.title = info.title[:200]
        return msgspec.structs.replace(
            info,
            url=tab.activity.main.unreachable_url or info.url,
            tabs=len(self._tabs),
            status=tab.activity.status,
            loading=tab.activity.is_loading,
            tab_list=self._tabs.listed if len(self._tabs) > 1 else (),
        )

    async def _observe_without_script(self, observe: Observe, deadline: float) -> PageObservation:
        """Observe a page that never stops navigating, without our script in it."""
        tab = await self._tabs.current_or_blank(deadline)
        page = PageInfo(
            url=tab.activity.main.url,
            title="",
            tabs=len(self._tabs),
            status=tab.activity.status,
            loading=True,
        )
        if observe.screenshot is None:
            return PageObservation(page)
        soon = min(deadline, asyncio.get_running_loop().time() + FALLBACK_SECONDS)
        try:
            async with tab.navigation_blocked(soon):
                picture = await take_screenshot(tab, observe.screenshot, observe.quality, soon)
        except TimeoutError:
            picture = await self._empty_screenshot(observe.screenshot, observe.quality, deadline)
        return PageObservation(page, picture)

    async def _screenshot(
        self, tab: Tab, image_format: ImageFormat, quality: int, deadline: float
    ) -> Picture:
        """A screenshot. Stops the loading of resources that block the rendering."""
        painting = await tab.world.painting(deadline)
        if painting == "empty":
            return await self._empty_screenshot(image_format, quality, deadline)
        if painting == "blocked":
            tab.stop_loading()
        return await take_screenshot(tab, image_format, quality, deadline)

    async def _empty_screenshot(
        self, image_format: ImageFormat, quality: int, deadline: float
    ) -> Picture:
        """A screenshot of an empty tab, for a page of which Chromium cannot take one yet."""
        empty = await self._tabs.open_blank(deadline)
        try:
            return await take_screenshot(empty, image_format, quality, deadline)
        finally:
            self._tabs.close(empty)

    async def _observe(self, tab: Tab, observe: Observe, deadline: float) -> PageObservation:
        script = PageScript(tab.world)
        page = await self.page_info(tab, deadline)
        marks = observe.interaction_mode == "set_of_marks" and observe.screenshot is not None
        elements: tuple[Element, ...] | None = None
        picture = None
        try:
            if marks or observe.wants_elements:
                elements = await script.collect(deadline)
            if marks:
                await script.draw_marks(deadline)
            if observe.screenshot is not None:
                picture = await self._screenshot(tab, observe.screenshot, observe.quality, deadline)
        finally:
            if marks:
                await _erase_marks(script)
        tree = await accessibility_tree(tab, deadline, elements) if observe.tree else None
        return PageObservation(page, picture, elements or (), tree)


async def _erase_marks(script: PageScript) -> None:
    """Erase the marks, unless their page is gone."""
    with suppress(DocumentGoneError, TimeoutError, PageCrashedError):
        await script.erase_marks(asyncio.get_running_loop().time() + ERASE_SECONDS)
