"""When a page counts as at rest, from what its tab says."""

import asyncio

import msgspec
import pytest

from webgym.browser.chromium.connection import DevToolsConnection
from webgym.browser.chromium.targets import TargetInfo
from webgym.browser.contract.answers import Incident
from webgym.browser.contract.errors import PageCrashedError
from webgym.browser.page.settle import settle
from webgym.browser.page.tab import Tab


def test_a_page_that_crashes_while_the_next_is_awaited_is_not_waited_for() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        reports: list[Incident] = []
        target = TargetInfo("main", "page")
        tab = Tab(DevToolsConnection(-1, -1), "session", target, reports.append)
        coming = {"frameId": "main", "loaderId": "next", "navigationType": "differentDocument"}
        tab.handle_event("Page.frameStartedNavigating", msgspec.Raw(msgspec.json.encode(coming)))
        settling = asyncio.ensure_future(settle(lambda: tab, loop.time() + 0.5))
        await asyncio.sleep(0)
        tab.handle_event("Inspector.targetCrashed", msgspec.Raw(b"{}"))
        with pytest.raises(PageCrashedError):
            await settling

    asyncio.run(scenario())
