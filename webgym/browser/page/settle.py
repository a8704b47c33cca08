"""Waiting until a page settles after a command.

Nothing here sleeps for a fixed time. A page is settled when no document is loading, nothing that
the step has begun is going on (requests, short timers of the page and of its workers, animations),
and its elements have not changed for `QUIET` seconds. This last wait is also the time in which the
consequences of a click must start: they are then waited for in turn. Each wait has its own limit,
because some pages never settle; the answer then says so. A document that did not load within its
limit is not waited for again in the next step.
"""

import asyncio
from collections.abc import Callable

from webgym.browser.page.elements import DocumentGoneError, PageScriptError, Quietness, StepStart
from webgym.browser.page.script import PageScript
from webgym.browser.page.tab import Tab
from webgym.browser.page.world import ScriptWorld

QUIET = 0.08
QUIET_LIMIT = 2.0
ANSWER_LIMIT = 15.0
"""For the server of a page to start its answer."""
READY_LIMIT = 8.0
"""For the document to be parsed, from then on."""
LOAD_LIMIT = 5.0
"""For the resources of a parsed document."""
REQUEST_LIMIT = 5.0
"""For requests that a loaded page has started."""
FAIR_TIME = 2.0
"""A page counts as unresponsive only if it did not answer for at least this long."""
MAX_DOCUMENTS = 5
"""After more navigations than this, waiting ends."""


async def settle(current_tab: Callable[[], Tab | None], deadline: float) -> bool:
    """Wait until the current tab settles; returns whether it did before the limits.

    Raises PageCrashedError, and TimeoutError for a page that is stuck in its scripts.
    """
    now = asyncio.get_running_loop().time
    visit: _DocumentVisit | None = None
    documents = 0
    while now() < deadline and documents <= MAX_DOCUMENTS:
        tab = current_tab()
        if tab is None:
            return True
        if not await _answered(tab, deadline):
            return False
        loaded = await _loaded(tab, deadline)
        if visit is None or not visit.is_same(tab):
            visit, documents = _DocumentVisit(tab, now(), deadline), documents + 1
        if tab.activity.is_requested and not tab.is_over:
            continue
        settled = await visit.settle(deadline)
        if settled is not None and current_tab() is tab:
            return loaded and settled
    tab = current_tab()
    if tab is not None and tab.activity.awaits_document and now() >= deadline:
        tab.give_up_navigation()
    return False


class _DocumentVisit:
    """A document of a tab, and the limits for it to settle."""

    def __init__(self, tab: Tab, now: float, deadline: float) -> None:
        self._tab = tab
        self._document = tab.activity.document
        self._settle_by = min(deadline, now + REQUEST_LIMIT)
        self._quiet_until = min(deadline, now + QUIET_LIMIT)
        self._asked_twice = False

    def is_same(self, tab: Tab) -> bool:
        return tab is self._tab and tab.activity.document == self._document

    async def settle(self, deadline: float) -> bool | None:
        """Whether it settled; None if that is still open."""
        now = asyncio.get_running_loop().time
        activity = self._tab.activity
        await _requests_ended(self._tab, self._settle_by)
        if now() >= deadline:
            return False
        quietness = await _quietness(self._tab, max(deadline, now() + FAIR_TIME))
        asked = now()
        timers = await self._tab.workers.timers(activity.step_start.age, self._settle_by)
        if not self.is_same(self._tab) or activity.is_navigating:
            return None
        if timers.looped and quietness == "quiet":
            quietness = "endless"
        if timers.wait is not None and now() < self._settle_by:
            await activity.changed(min(timers.wait, self._settle_by - now()))
            return None
        if now() - asked > QUIET and not timers.looped and not self._asked_twice:
            self._asked_twice = True
            return None  # a worker was busy, and may have told its page something
        ended = quietness != "busy" or now() >= self._quiet_until
        if ended and not activity.pending_requests():
            return quietness == "quiet" and not activity.has_unfinished
        return False if now() >= self._settle_by else None


async def _answered(tab: Tab, deadline: float) -> bool:
    """Wait for the answer with the next document, if one was requested; give up at the limit."""
    now = asyncio.get_running_loop().time
    limit = min(deadline, now() + ANSWER_LIMIT)
    while tab.activity.is_requested and not tab.is_over:
        if now() >= limit:
            tab.give_up_navigation()
            return False
        # A navigation that was only requested never reports that it was abandoned.
        await tab.activity.changed(limit - now() if tab.activity.awaits_document else QUIET)
    return True


async def _loaded(tab: Tab, deadline: float) -> bool:
    """Wait for the document and its resources; returns whether all were loaded."""
    now = asyncio.get_running_loop().time
    activity = tab.activity
    document, ready = activity.document, activity.dom_ready
    limit = min(deadline, now() + (LOAD_LIMIT if ready else READY_LIMIT))
    while activity.is_loading and activity.document == document and not activity.is_requested:
        if tab.crashed or activity.was_given_up:
            return not tab.crashed and activity.was_given_up_before
        if activity.dom_ready != ready:
            ready, limit = True, min(deadline, now() + LOAD_LIMIT)
        if now() >= limit:
            if limit < deadline:
                activity.give_up()
            return False
        await activity.changed(limit - now())
    return True


async def _requests_ended(tab: Tab, limit: float) -> None:
    """Wait for the requests of the page. Long ones count as background after a while."""
    now = asyncio.get_running_loop().time
    activity = tab.activity
    while activity.pending_requests() and not activity.is_navigating and not tab.is_over:
        if now() >= limit:
            return
        await activity.changed(min(limit - now(), 0.5))


async def _quietness(tab: Tab, deadline: float) -> Quietness:
    """Whether the elements of the page, and of frames in it, stay unchanged for a moment."""
    worlds: list[ScriptWorld] = [tab.world, *tab.world.known_frames]
    page, *frames = await asyncio.gather(
        *(_quietness_of(world, tab.activity.step_start, deadline) for world in worlds)
    )
    found = {page or "busy", *frames}
    return "busy" if "busy" in found else "endless" if "endless" in found else "quiet"


async def _quietness_of(world: ScriptWorld, step: StepStart, deadline: float) -> Quietness | None:
    """None if the document is gone."""
    try:
        return await PageScript(world).quiet(QUIET, QUIET_LIMIT, step, deadline)
    except (DocumentGoneError, PageScriptError):
        return None
