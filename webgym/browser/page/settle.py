"""Waiting until a page has come to rest after something was done to it.

Nothing here sleeps for a fixed time. A page is at rest when no document is being loaded, no request
that it may wait for is in flight, and its elements have not changed for `QUIET` seconds. That last
wait is also the time in which a click's consequences must begin: whatever begins then is waited for
in turn. Each wait has its own bound, because pages exist that never rest; the answer then says so.
A document that was not loaded within its bound is not waited for again in the next step.
"""

import asyncio
from collections.abc import Callable

from webgym.browser.page.errors import DocumentGoneError, ScriptError
from webgym.browser.page.script import PageScript
from webgym.browser.page.tab import Tab

QUIET = 0.08
QUIET_LIMIT = 1.0
ANSWER_LIMIT = 15.0
"""For the server of a page to begin to answer."""
READY_LIMIT = 8.0
"""For the document to be there, from then on."""
LOAD_LIMIT = 5.0
"""For what the document loads, once it is there itself."""
REQUEST_LIMIT = 3.0
"""For requests that a page at rest has begun."""
FAIR_TIME = 2.0
"""A page is not called unresponsive for what it did not answer within less."""
MAX_DOCUMENTS = 5
"""A page that goes on to more than so many others does not mean to rest."""


async def settle(current_tab: Callable[[], Tab | None], deadline: float) -> bool:
    """Wait for the current tab to rest; whether it did, before the bounds or the deadline.

    Raises PageCrashedError, and TimeoutError for a page whose scripts never let go.
    """
    now = asyncio.get_running_loop().time
    stay: _Stay | None = None
    documents = 0
    while now() < deadline and documents <= MAX_DOCUMENTS:
        tab = current_tab()
        if tab is None:
            return True
        if not await _answered(tab, deadline):
            return False
        loaded = await _loaded(tab, deadline)
        if stay is None or not stay.goes_on(tab):
            stay, documents = _Stay(tab, now(), deadline), documents + 1
        if tab.activity.is_requested and not tab.is_over:
            continue
        rests = await stay.rest(deadline)
        if rests is not None and current_tab() is tab:
            return loaded and rests
    tab = current_tab()
    if tab is not None and tab.activity.awaits_document and now() >= deadline:
        tab.give_up_navigation()
    return False


class _Stay:
    """A document of a tab, and the bounds for its coming to rest from now on."""

    def __init__(self, tab: Tab, now: float, deadline: float) -> None:
        self._tab = tab
        self._document = tab.activity.document
        self._rest_by = min(deadline, now + REQUEST_LIMIT)
        self._quiet_until = min(deadline, now + QUIET_LIMIT)

    def goes_on(self, tab: Tab) -> bool:
        return tab is self._tab and tab.activity.document == self._document

    async def rest(self, deadline: float) -> bool | None:
        """Whether it rests; None where that is not settled yet."""
        now = asyncio.get_running_loop().time
        activity = self._tab.activity
        await _requests_ended(self._tab, self._rest_by)
        if now() >= deadline:
            return False
        still = await _still(self._tab, max(deadline, now() + FAIR_TIME))
        if not self.goes_on(self._tab) or activity.is_navigating:
            return None
        if not activity.pending_requests() and (still or now() >= self._quiet_until):
            return still
        return False if now() >= self._rest_by else None


async def _answered(tab: Tab, deadline: float) -> bool:
    """Wait for the server of the next page, if one is on its way; give it up at the bound."""
    now = asyncio.get_running_loop().time
    limit = min(deadline, now() + ANSWER_LIMIT)
    while tab.activity.is_requested and not tab.is_over:
        if now() >= limit:
            tab.give_up_navigation()
            return False
        # A navigation that was only asked for never says that it was given up.
        await tab.activity.changed(limit - now() if tab.activity.awaits_document else QUIET)
    return True


async def _loaded(tab: Tab, deadline: float) -> bool:
    """Wait for the document and what belongs to it; whether all of it came."""
    now = asyncio.get_running_loop().time
    activity = tab.activity
    document, ready = activity.document, activity.dom_ready
    limit = min(deadline, now() + (LOAD_LIMIT if ready else READY_LIMIT))
    while activity.is_loading and activity.document == document and not activity.is_requested:
        if tab.crashed or activity.was_given_up:
            return False
        if activity.dom_ready != ready:
            ready, limit = True, min(deadline, now() + LOAD_LIMIT)
        if now() >= limit:
            if limit < deadline:
                activity.give_up()
            return False
        await activity.changed(limit - now())
    return True


async def _requests_ended(tab: Tab, limit: float) -> None:
    """Wait for what the page asked for. What takes too long becomes background meanwhile."""
    now = asyncio.get_running_loop().time
    activity = tab.activity
    while activity.pending_requests() and not activity.is_navigating and not tab.is_over:
        if now() >= limit:
            return
        await activity.changed(min(limit - now(), 0.5))


async def _still(tab: Tab, deadline: float) -> bool:
    """Whether the page's elements stay as they are for a moment."""
    try:
        return await PageScript(tab.world).quiet(QUIET, QUIET_LIMIT, deadline)
    except (DocumentGoneError, ScriptError):
        return False
