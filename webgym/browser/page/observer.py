"""Looking at a page: its state, its picture, its elements, its tree, all of one document.

When the page moves on in the middle of it, the look is taken again. Of a page that never stays,
only what the browser itself knows is seen.
"""

import asyncio
from contextlib import suppress

import msgspec

from webgym.browser.contract.answers import Element, ImageFormat, Observe, PageInfo, Picture
from webgym.browser.contract.errors import PageCrashedError
from webgym.browser.page.accessibility import accessibility_tree
from webgym.browser.page.camera import take_picture
from webgym.browser.page.errors import DocumentGoneError, ScriptError
from webgym.browser.page.script import PageScript
from webgym.browser.page.settle import settle
from webgym.browser.page.tab import Tab
from webgym.browser.page.tabs import Tabs

LOOKS = 3
RESETTLED_WITHIN = 5.0
GLANCED_WITHIN = 3.0
ERASED_WITHIN = 1.0


class Seen(msgspec.Struct, frozen=True):
    """What a look showed."""

    page: PageInfo
    picture: Picture | None = None
    elements: tuple[Element, ...] = ()
    tree: str | None = None


class Observer:
    """The eyes of a session."""

    def __init__(self, tabs: Tabs) -> None:
        self._tabs = tabs
        self.last: Seen | None = None
        """What the last picture showed."""

    async def look(self, observe: Observe, deadline: float) -> Seen:
        """Raises TimeoutError for a page that does not answer, PageCrashedError."""
        now = asyncio.get_running_loop().time
        for attempt in range(1, LOOKS + 1):
            tab = await self._tabs.provide(deadline)
            document = tab.activity.document
            tab.hear_dialogs()
            with suppress(DocumentGoneError, ScriptError):
                seen = await self._look(tab, observe, deadline)
                if document == tab.activity.document or attempt == LOOKS:
                    break
            await settle(lambda: self._tabs.current, min(deadline, now() + RESETTLED_WITHIN))
        else:
            seen = await self._glance(observe, deadline)
        if seen.picture is not None:
            self.last = seen
        return seen

    async def page_info(self, tab: Tab, deadline: float) -> PageInfo:
        info = await PageScript(tab.world).page_info(deadline)
        return msgspec.structs.replace(
            info,
            url=tab.activity.main.unreachable_url or info.url,
            tabs=len(self._tabs),
            status=tab.activity.status,
            loading=tab.activity.is_loading,
        )

    async def _glance(self, observe: Observe, deadline: float) -> Seen:
        """What can be seen of a page that never stays, without its help."""
        tab = await self._tabs.provide(deadline)
        page = PageInfo(
            url=tab.activity.main.url,
            title="",
            tabs=len(self._tabs),
            status=tab.activity.status,
            loading=True,
        )
        if observe.screenshot is None:
            return Seen(page)
        soon = min(deadline, asyncio.get_running_loop().time() + GLANCED_WITHIN)
        try:
            async with tab.held(soon):
                picture = await take_picture(tab, observe.screenshot, observe.quality, soon)
        except TimeoutError:
            picture = await self._empty_picture(observe.screenshot, observe.quality, deadline)
        return Seen(page, picture)

    async def _picture(
        self, tab: Tab, image_format: ImageFormat, quality: int, deadline: float
    ) -> Picture:
        """What would block the page for ever is no longer loaded, so that it can be seen."""
        painting = await tab.world.painting(deadline)
        if painting == "empty":
            return await self._empty_picture(image_format, quality, deadline)
        if painting == "blocked":
            tab.stop_loading()
        return await take_picture(tab, image_format, quality, deadline)

    async def _empty_picture(
        self, image_format: ImageFormat, quality: int, deadline: float
    ) -> Picture:
        """Of a page that shows nothing yet, as Chromium takes none of such a page itself."""
        empty = await self._tabs.open_blank(deadline)
        try:
            return await take_picture(empty, image_format, quality, deadline)
        finally:
            self._tabs.close(empty)

    async def _look(self, tab: Tab, observe: Observe, deadline: float) -> Seen:
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
                picture = await self._picture(tab, observe.screenshot, observe.quality, deadline)
        finally:
            if marks:
                await _erase_marks(script)
        tree = await accessibility_tree(tab, deadline, elements) if observe.tree else None
        return Seen(page, picture, elements or (), tree)


async def _erase_marks(script: PageScript) -> None:
    """Marks that cannot be erased went with their page."""
    with suppress(DocumentGoneError, TimeoutError, PageCrashedError):
        await script.erase_marks(asyncio.get_running_loop().time() + ERASED_WITHIN)
