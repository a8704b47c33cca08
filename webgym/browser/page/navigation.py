"""Going to a page and back from one."""

import asyncio

import msgspec

from webgym.browser.contract.errors import NavigationError
from webgym.browser.page.tab import Tab

ANSWER_LIMIT = 30.0
"""For a server to begin to answer."""
SHOWN_WITHIN = 6.0
"""For the page before to make room for the answer."""
_BLANK = ("about:blank", "")


class _Entry(msgspec.Struct):
    id: int
    url: str = ""


class _History(msgspec.Struct, rename="camel"):
    current_index: int
    entries: list[_Entry]


class _Navigating(msgspec.Struct, rename="camel"):
    loader_id: str = ""
    error_text: str = ""
    is_download: bool = False


_READ_HISTORY = msgspec.json.Decoder(_History).decode
_READ_NAVIGATING = msgspec.json.Decoder(_Navigating).decode


async def visit(tab: Tab, url: str, deadline: float) -> bool:
    """Open a page, up to the moment when its server has answered. Raises NavigationError.

    Says whether the page before has made room for it: one whose last script never ends does not.
    """
    now = asyncio.get_running_loop().time
    soon = min(deadline, now() + ANSWER_LIMIT)
    tab.activity.begin_navigation()
    try:
        answer = _READ_NAVIGATING(await tab.call("Page.navigate", {"url": url}, deadline=soon))
    except TimeoutError:
        tab.stop_loading()
        raise NavigationError(f"{url} did not answer in time") from None
    tab.activity.end_navigation()
    if answer.is_download:
        raise NavigationError(f"{url} is a download; downloads are refused")
    if answer.error_text:
        raise NavigationError(f"{url} cannot be opened: {answer.error_text}")
    soon = min(deadline, now() + SHOWN_WITHIN)
    while tab.activity.awaits(answer.loader_id) and not tab.crashed and now() < soon:
        await tab.activity.changed(soon - now())
    return not tab.activity.awaits(answer.loader_id)


async def go_back(tab: Tab, deadline: float) -> bool:
    """Return to the page before, if the tab has shown one; whether it had."""
    history = _READ_HISTORY(await tab.call("Page.getNavigationHistory", deadline=deadline))
    before = history.entries[: history.current_index]
    if not before or before[-1].url in _BLANK:
        return False
    tab.activity.begin_navigation()
    await tab.call("Page.navigateToHistoryEntry", {"entryId": before[-1].id}, deadline=deadline)
    return True
