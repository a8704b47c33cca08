"""Getting pages out of the way that crashed or do not answer, so that their session goes on.

The page to blame is the one that was worked in when the request began. What it has opened meanwhile
is the current one by now, and may be as stuck, since the two often share a process, or not at all.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from webgym.browser.chromium.connection import CallError
from webgym.browser.contract.errors import (
    CommandError,
    PageCrashedError,
    PageUnresponsiveError,
    SessionLostError,
)
from webgym.browser.page.errors import DocumentGoneError, ScriptError
from webgym.browser.page.settle import FAIR_TIME
from webgym.browser.page.tab import Tab
from webgym.browser.page.tabs import Tabs

RESCUE_TIME = 6.0
"""Kept back from a deadline, for getting a page that does not answer out of the way."""
ANSWERED_WITHIN = 1.5
"""By a page whose scripts were stopped."""
GLANCED_WITHIN = 0.5
"""By a page that is not the one to blame."""

T = TypeVar("T")


class Rescue:
    """For the tabs of one session; `lose` ends it where no tab can be opened any more."""

    def __init__(self, tabs: Tabs, lose: Callable[[str], None]) -> None:
        self._tabs = tabs
        self._lose = lose
        self._worked_in: Tab | None = None

    def begin(self) -> None:
        """A request begins now, in the current tab."""
        self._worked_in = self._tabs.current

    async def rescued(self, work: Callable[[], Awaitable[T]], deadline: float) -> T:
        """Do the work; get a page that crashed or does not answer out of the way.

        Raises CommandErrors, and TimeoutError where the deadline itself leaves no time for that.
        """
        try:
            return await work()
        except PageCrashedError:
            await self.give_up(*self._tabs.crashed)
            raise
        except TimeoutError as error:
            if deadline - asyncio.get_running_loop().time() < ANSWERED_WITHIN:
                raise
            ended = await self._unblock()
            raise PageUnresponsiveError(f"the page did not answer in time; {ended}") from error
        except (DocumentGoneError, ScriptError, CallError) as error:
            raise CommandError(f"the page changed under the command: {error}") from error

    async def check_the_page_left(self) -> None:
        """Raises TimeoutError where the page worked in is stuck behind one that it opened."""
        left = self._worked_in
        if left is None or left is self._tabs.current or left.is_over:
            return
        if not await _answers(left, FAIR_TIME):
            raise TimeoutError("the page that was left does not answer")

    async def give_up(self, *tabs: Tab | None) -> None:
        """Close tabs that are of no more use; where one was the current one, open an empty one.

        Raises SessionLostError, and TimeoutError where that takes too long; the next request tries
        again.
        """
        current = self._tabs.current
        for tab in tabs:
            if tab is not None and not tab.closed:
                self._tabs.close(tab)
        if current is not None and self._tabs.current is current:
            return
        deadline = asyncio.get_running_loop().time() + RESCUE_TIME
        try:
            await self._tabs.open_blank(deadline)
        except (CallError, DocumentGoneError, PageCrashedError) as error:
            reason = f"no tab could be opened after a crash: {error}"
            self._lose(reason)
            raise SessionLostError(reason) from error

    async def _unblock(self) -> str:
        """Stop the scripts of a page that does not answer, or give the page up; what was done."""
        both = dict.fromkeys((self._worked_in, self._tabs.current))
        tabs = [tab for tab in both if tab is not None and not tab.closed]
        if not tabs:
            return "it had closed itself"
        stuck = await _silent(tabs, GLANCED_WITHIN) or tabs[:1]
        for tab in stuck:
            tab.stop_loading()
            tab.send("Runtime.terminateExecution")
        hopeless = await _silent(stuck, ANSWERED_WITHIN)
        if not hopeless:
            return "its scripts were stopped"
        await self.give_up(*hopeless)
        return "it was closed"


async def _silent(tabs: list[Tab], seconds: float) -> list[Tab]:
    """Those that do not answer."""
    heard = await asyncio.gather(*(_answers(tab, seconds) for tab in tabs))
    return [tab for tab, answered in zip(tabs, heard, strict=True) if not answered]


async def _answers(tab: Tab, seconds: float) -> bool:
    """Whether the scripts of a page leave room for others."""
    deadline = asyncio.get_running_loop().time() + seconds
    try:
        await tab.call("Runtime.evaluate", {"expression": "0"}, deadline=deadline)
    except (TimeoutError, CallError, CommandError, DocumentGoneError):
        return False
    return True
