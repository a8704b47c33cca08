"""Waiting until a page has come to rest after something was done to it.

Nothing here sleeps for a fixed time. A page is at rest when no document is being loaded, no request
that it may wait for is in flight, and its elements have not changed for `QUIET` seconds. That last
wait is also the time in which a click's consequences must begin: whatever begins then is waited for
in turn. Each wait has its own bound, because pages exist that never rest; the answer then says so.
A document that was not loaded within its bound is not waited for again in the next step.
"""

import asyncio
from collections.abc import Callable

from webgym.browser.page.script import PageScript
from webgym.browser.page.tab import DocumentGoneError, ScriptError, Tab

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
MAX_DOCUMENTS = 5
"""A page that goes on to more than so many others does not mean to rest."""


async def settle(current_tab: Callable[[], Tab | None], deadline: float) -> bool:
    """Wait for the current tab to rest; whether it did, before the bounds or the deadline.

    Raises PageCrashedError, and TimeoutError for a page whose scripts never let go.
    """
    now = asyncio.get_running_loop().time
    last: tuple[Tab, int] | None = None
    documents, rest_by, quiet_until = 0, deadline, deadline
    while now() < deadline and documents <= MAX_DOCUMENTS:
        tab = current_tab()
        if tab is None:
            return True
        if not await _answered(tab, deadline):
            return False
        loaded = await _loaded(tab, deadline)
        here = (tab, tab.activity.document)
        if here != last:
            last, documents = here, documents + 1
            rest_by = min(deadline, now() + REQUEST_LIMIT)
            quiet_until = min(deadline, now() + QUIET_LIMIT)
        if tab.activity.is_requested and not tab.is_over:
            continue
        await _requests_ended(tab, rest_by)
        still = await _still(tab, deadline)
        if current_tab() is not tab or here[1] != tab.activity.document:
            continue
        if not tab.activity.is_navigating:
            waits = tab.activity.pending_requests() > 0
            if not waits and (still or now() >= quiet_until):
                return loaded and still
            if now() >= rest_by:
                return False
    return False


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
        return await PageScript(tab).quiet(QUIET, QUIET_LIMIT, deadline)
    except (DocumentGoneError, ScriptError):
        return False
