"""The tabs of one session, handled as if there were only one.

The newest tab is the current one. When it closes, by itself or by `back`, the tab before it is
current again. A page that opens windows without end gets no more than a few.
"""

import asyncio
from collections.abc import Callable

import msgspec

from rollgym.servers.limit import Limit
from webgym.browser.chromium.targets import TargetInfo, Targets
from webgym.browser.contract.answers import VIEWPORT_HEIGHT, VIEWPORT_WIDTH, Incident
from webgym.browser.page.errors import DocumentGoneError
from webgym.browser.page.tab import Tab

MAX_TABS = 5
MAX_WINDOWS = 20
"""That a page may open in one step before it is closed."""
BLANK = "about:blank"


class _Created(msgspec.Struct, rename="camel"):
    target_id: str


class Tabs:
    """The tabs of one browser context. `report` is told of those that come and go unasked."""

    def __init__(self, targets: Targets, report: Callable[[Incident], None]) -> None:
        self._targets = targets
        self._report = report
        self._context = ""
        self._opening = False
        self._tabs: list[Tab] = []
        self._came = asyncio.Event()

    @property
    def current(self) -> Tab | None:
        return self._tabs[-1] if self._tabs else None

    @property
    def crashed(self) -> list[Tab]:
        """Those whose pages have crashed: a page and what it opened often share a process."""
        return [tab for tab in self._tabs if tab.crashed]

    def __len__(self) -> int:
        return len(self._tabs)

    async def open_context(self, proxy_server: str, deadline: float) -> None:
        """Make the context, with one empty tab. Raises what `Connection.call` raises."""
        self._context = await self._targets.create_context(proxy_server, self, deadline)
        await self.open_blank(deadline)

    async def close_context(self, deadline: float) -> None:
        if self._context:
            await self._targets.dispose_context(self._context, deadline)

    async def provide(self, deadline: float) -> Tab:
        """The current tab; an empty one where the page has closed the last."""
        return self.current or await self.open_blank(deadline)

    async def open_blank(self, deadline: float) -> Tab:
        params = {
            "url": BLANK,
            "browserContextId": self._context,
            "width": VIEWPORT_WIDTH,
            "height": VIEWPORT_HEIGHT,
        }
        connection = self._targets.connection
        self._opening = True
        try:
            answer = await connection.call("Target.createTarget", params, deadline=deadline)
        finally:
            self._opening = False
        target = msgspec.json.decode(answer, type=_Created).target_id
        with Limit(max(0.0, deadline - asyncio.get_running_loop().time())):
            while True:
                tab = next((each for each in self._tabs if each.target.target_id == target), None)
                if tab is not None:
                    # What was set up before is in force when a later call is answered.
                    await tab.call("Page.getFrameTree", deadline=deadline)
                    return tab
                self._came.clear()
                await self._came.wait()

    async def replace(self, tab: Tab | None, deadline: float) -> Tab:
        """An empty tab instead of one that is of no more use."""
        if tab is not None:
            self.close(tab)
        return await self.open_blank(deadline)

    def close(self, tab: Tab) -> None:
        """Close a tab ourselves: nothing to report."""
        self._forget(tab)
        self._targets.connection.send("Target.closeTarget", {"targetId": tab.target.target_id})

    def wake(self) -> None:
        """Let whoever waits for a tab look again."""
        for tab in self._tabs:
            tab.activity.wake()

    def tab_attached(self, session: str, target: TargetInfo) -> None:
        connection = self._targets.connection
        if len(self._tabs) >= MAX_TABS and not self._opening:
            self._report(Incident("limit", f"more than {MAX_TABS} tabs; closed {target.url[:500]}"))
            connection.send("Runtime.runIfWaitingForDebugger", session=session)
            connection.send("Target.closeTarget", {"targetId": target.target_id})
            self._close_openers()
            return
        tab = Tab(connection, session, target, self._report)
        self._tabs.append(tab)
        tab.begin()
        if not self._opening:
            tab.activity.begin_navigation()
            self._report(Incident("new_tab", target.url[:500] or BLANK))
        self._came.set()
        self.wake()

    def tab_detached(self, session: str) -> None:
        for tab in self._tabs:
            if tab.session == session:
                self._forget(tab)
                self._report(Incident("tab_closed", tab.activity.main.url[:500]))
                return

    def download_refused(self, url: str) -> None:
        self._report(Incident("download", f"refused: {url[:500]}"))

    def _close_openers(self) -> None:
        """Close the pages that open windows without end: they would never stop."""
        for tab in [tab for tab in self._tabs if tab.windows > MAX_WINDOWS]:
            where = tab.activity.main.url[:500]
            self._report(Incident("limit", f"closed {where}: it opens windows without end"))
            self.close(tab)

    def _forget(self, tab: Tab) -> None:
        self._tabs.remove(tab)
        tab.closed = True
        self._targets.connection.unlisten(tab.session)
        gone = DocumentGoneError(f"the tab of {tab.activity.main.url[:500]} was closed")
        self._targets.connection.fail(tab.session, gone)
        tab.activity.wake()
        self.wake()
