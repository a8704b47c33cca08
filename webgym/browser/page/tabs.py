"""The tabs of one session, handled as if there were only one, and the recovery from stuck pages.

The newest tab is the current one, until another one is chosen. When it closes, by itself or by
`back`, the tab that was current before is current again. A page that opens windows without end gets
only a few.

*Recovery.* Pages that crashed or do not answer are stopped or closed, so that their session
continues. The page to blame is the current one at the start of the request. A page that it has
opened meanwhile is the current one now. That page may be stuck too, since the two often share a
process, or not at all.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TypeVar

import msgspec

from rollgym.servers.limit import Limit
from webgym.browser.chromium.connection import CallError
from webgym.browser.chromium.targets import TargetInfo, Targets
from webgym.browser.contract.answers import Incident, OpenTab
from webgym.browser.contract.errors import (
    CommandError,
    PageCrashedError,
    PageUnresponsiveError,
    SessionLostError,
)
from webgym.browser.contract.profile import DEFAULT_PROFILE, SessionProfile
from webgym.browser.page.elements import DocumentGoneError, PageScriptError
from webgym.browser.page.emulation import identity_of
from webgym.browser.page.files import Downloads
from webgym.browser.page.settle import FAIR_TIME
from webgym.browser.page.tab import Tab

MAX_TABS = 5
MAX_WINDOWS = 20
"""Windows that a page may open in one step before it is closed."""
BLANK = "about:blank"


class _Created(msgspec.Struct, rename="camel"):
    target_id: str


class SessionTabs:
    """The tabs of one browser context. `report` is called for incidents."""

    def __init__(
        self,
        targets: Targets,
        report: Callable[[Incident], None],
        profile: SessionProfile = DEFAULT_PROFILE,
    ) -> None:
        self.profile = profile
        self._targets = targets
        self._report = report
        self._context = ""
        self.listener: Callable[[str, msgspec.Raw], None] | None = None
        """Gets all events of new tabs, for a recording."""
        self.downloads = Downloads(report, self._cancel_download, kept=profile.downloads)
        self._opening = False
        self._tabs: list[Tab] = []
        """The current one is last; the others in the order in which they were current."""
        self._opened = 0
        self._new: list[Tab] = []
        self._attached = asyncio.Event()
        self.visited: dict[str, None] = {}
        """The origins of its closed tabs, and those that it started with."""

    @property
    def current(self) -> Tab | None:
        return self._tabs[-1] if self._tabs else None

    @property
    def crashed(self) -> list[Tab]:
        """Tabs with crashed pages: a page and those that it opened often share a process."""
        return [tab for tab in self._tabs if tab.crashed]

    def __len__(self) -> int:
        return len(self._tabs)

    async def open_context(self, proxy_server: str, deadline: float) -> None:
        """Create the context, without a tab. Raises what `call` of the connection raises."""
        self._context = await self._targets.create_context(proxy_server, self, deadline)

    async def call_context(
        self, method: str, params: dict[str, object], deadline: float
    ) -> msgspec.Raw:
        """Call a method of the browser about this context."""
        given = {**params, "browserContextId": self._context}
        return await self._targets.connection.call(method, given, deadline=deadline)

    def all_visited(self) -> list[str]:
        """The origins of all pages, oldest first."""
        return list(dict.fromkeys([*self.visited, *(o for tab in self._tabs for o in tab.visited)]))

    async def close_context(self, deadline: float) -> None:
        for tab in self._tabs:
            tab.workers.close()
        try:
            if self._context:
                await self._targets.dispose_context(self._context, deadline)
        finally:
            await self.downloads.close()

    async def current_or_blank(self, deadline: float) -> Tab:
        """The current tab, or a new empty one if the page has closed the last."""
        return self.current or await self.open_blank(deadline)

    async def open_blank(self, deadline: float) -> Tab:
        params = {
            "url": BLANK,
            "browserContextId": self._context,
            "width": self.profile.viewport.width,
            "height": self.profile.viewport.height,
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
                    # When this call is answered, the set-up of the tab has taken effect.
                    await tab.call("Page.getFrameTree", deadline=deadline)
                    return tab
                self._attached.clear()
                await self._attached.wait()

    def close(self, tab: Tab) -> None:
        """Close a tab without an incident."""
        self._forget(tab)
        self._targets.connection.send("Target.closeTarget", {"targetId": tab.target.target_id})

    @property
    def listed(self) -> tuple[OpenTab, ...]:
        """The tabs by their numbers."""
        return tuple(
            OpenTab(tab.number, tab.activity.main.url[:500], tab.title, tab is self.current)
            for tab in sorted(self._tabs, key=lambda tab: tab.number)
        )

    def numbered(self, number: int | None) -> Tab:
        """The tab of this number, or the current one. Raises CommandError."""
        for tab in reversed(self._tabs):
            if number in (None, tab.number):
                return tab
        numbers = ", ".join(str(tab.number) for tab in self.listed)
        raise CommandError(f"there is no tab {number}: the tabs are {numbers}")

    def switch(self, tab: Tab) -> None:
        """Make a tab the current one."""
        self._tabs.remove(tab)
        self._tabs.append(tab)
        tab.send("Page.bringToFront")
        self.wake()

    def discard(self, tab: Tab) -> None:
        """Close a tab that was opened for us, as if it had never been there."""
        if tab.number == self._opened:
            self._opened -= 1
        if not tab.closed:
            self.close(tab)

    def discard_empty(self) -> bool:
        """Discard new tabs that got no page: their address is a download, or has no content.

        Chromium never paints such a tab. Returns whether there were any.
        """
        empty = [tab for tab in self._new if tab.got_no_page]
        for tab in empty:
            self._new.remove(tab)
            self.discard(tab)
        return bool(empty)

    def wake(self) -> None:
        """Wake up all callers that wait for a change of a tab."""
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
        tab = Tab(connection, session, target, self._report, self.profile)
        self._opened += 1
        tab.number = self._opened
        tab.listener = self.listener
        tab.on_download = self.downloads.began
        self._tabs.append(tab)
        tab.start()
        if not self._opening:
            tab.activity.begin_navigation()
            self._new.append(tab)
        self._attached.set()
        self.wake()

    def report_new(self) -> None:
        """Report the new tabs. Their addresses are not known before this: they open empty."""
        for tab in self._new:
            where = tab.activity.main.unreachable_url or tab.activity.main.url
            self._report(Incident("new_tab", (where or tab.target.url or BLANK)[:500]))
        self._new.clear()

    def tab_detached(self, session: str) -> None:
        self.report_new()
        for tab in self._tabs:
            if tab.session == session:
                self._forget(tab)
                self._report(Incident("tab_closed", tab.activity.main.url[:500]))
                return

    def identity(self, usual: Mapping[str, object] | None) -> Mapping[str, object] | None:
        return identity_of(self.profile, usual)

    @property
    def download_folder(self) -> Path | None:
        return self.downloads.folder

    def download_progressed(self, guid: str, received: float, state: str) -> None:
        self.downloads.progressed(guid, received, state)

    def _cancel_download(self, guid: str) -> None:
        params = {"guid": guid, "browserContextId": self._context}
        self._targets.connection.send("Browser.cancelDownload", params)

    def _close_openers(self) -> None:
        """Close the pages that open windows without end."""
        for tab in [tab for tab in self._tabs if tab.windows > MAX_WINDOWS]:
            where = tab.activity.main.url[:500]
            self._report(Incident("limit", f"closed {where}: it opens windows without end"))
            self.close(tab)

    def _forget(self, tab: Tab) -> None:
        self._tabs.remove(tab)
        self.visited |= tab.visited
        tab.closed = True
        tab.workers.close()
        self._targets.connection.unlisten(tab.session)
        gone = DocumentGoneError(f"the tab of {tab.activity.main.url[:500]} was closed")
        self._targets.connection.fail(tab.session, gone)
        tab.activity.wake()
        self.wake()


RECOVERY_TIME = 6.0
"""The part of a deadline that is reserved for the recovery from a page that does not answer."""
STOPPED_ANSWER = 1.5
"""Timeout for a page whose scripts were stopped."""
QUICK_ANSWER = 0.5
"""Timeout for a page that is probably not the one to blame."""

T = TypeVar("T")


class PageRecovery:
    """Recovers the tabs of one session. `lose` ends the session if no tab can be opened."""

    def __init__(self, tabs: SessionTabs, lose: Callable[[str], None]) -> None:
        self._tabs = tabs
        self._lose = lose
        self._request_tab: Tab | None = None

    def begin(self) -> None:
        """Note that a request starts in the current tab."""
        self._request_tab = self._tabs.current

    async def run(self, work: Callable[[], Awaitable[T]], deadline: float) -> T:
        """Do the work, and recover from a page that crashed or does not answer.

        Raises CommandErrors, and TimeoutError if the deadline leaves no time for the recovery.
        """
        try:
            return await work()
        except PageCrashedError:
            await self.close(*self._tabs.crashed)
            raise
        except TimeoutError as error:
            if deadline - asyncio.get_running_loop().time() < STOPPED_ANSWER:
                raise
            ended = await self._unblock()
            raise PageUnresponsiveError(f"the page did not answer in time; {ended}") from error
        except (DocumentGoneError, PageScriptError, CallError) as error:
            raise CommandError(f"the page changed during the command: {error}") from error

    async def check_request_tab(self) -> None:
        """Raises TimeoutError if the page of the request is stuck behind one that it opened."""
        opener = self._request_tab
        if opener is None or opener is self._tabs.current or opener.is_over:
            return
        if not await _answers(opener, FAIR_TIME):
            raise TimeoutError("the page that opened the current one does not answer")

    async def close(self, *tabs: Tab | None) -> None:
        """Close these tabs, and open an empty one if the current one was among them.

        Raises SessionLostError, and TimeoutError if that takes too long; the next request tries
        again.
        """
        current = self._tabs.current
        for tab in tabs:
            if tab is not None and not tab.closed:
                self._tabs.close(tab)
        if current is not None and self._tabs.current is current:
            return
        deadline = asyncio.get_running_loop().time() + RECOVERY_TIME
        try:
            await self._tabs.open_blank(deadline)
        except (CallError, DocumentGoneError, PageCrashedError) as error:
            reason = f"no tab could be opened after a crash: {error}"
            self._lose(reason)
            raise SessionLostError(reason) from error

    async def _unblock(self) -> str:
        """Stop the scripts of a page that does not answer, or close it; returns what was done."""
        both = dict.fromkeys((self._request_tab, self._tabs.current))
        tabs = [tab for tab in both if tab is not None and not tab.closed]
        if not tabs:
            return "it had closed itself"
        stuck = await _unresponsive(tabs, QUICK_ANSWER) or tabs[:1]
        for tab in stuck:
            tab.stop_loading()
            tab.send("Runtime.terminateExecution")
        still_stuck = await _unresponsive(stuck, STOPPED_ANSWER)
        if not still_stuck:
            return "its scripts were stopped"
        await self.close(*still_stuck)
        return "it was closed"


async def _unresponsive(tabs: list[Tab], seconds: float) -> list[Tab]:
    """The tabs that do not answer."""
    results = await asyncio.gather(*(_answers(tab, seconds) for tab in tabs))
    return [tab for tab, answered in zip(tabs, results, strict=True) if not answered]


async def _answers(tab: Tab, seconds: float) -> bool:
    """Whether a page answers, so that it is not stuck in its scripts."""
    deadline = asyncio.get_running_loop().time() + seconds
    try:
        await tab.call("Runtime.evaluate", {"expression": "0"}, deadline=deadline)
    except (TimeoutError, CallError, CommandError, DocumentGoneError):
        return False
    return True
