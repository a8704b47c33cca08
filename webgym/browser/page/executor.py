"""Carries out the commands of the contract in the current tab of a session.

*The clipboard.* Chromium has one for all of its contexts: what one session copies, another one
could paste. So the keys for copying, cutting and pasting are not sent to the browser. The selected
text is read from the page and kept here, and typed when it is pasted. Pages get the events `copy`,
`cut` and `paste`, but not those of the keys.
"""

import asyncio
import base64
from collections.abc import Callable
from typing import Literal

import msgspec

from webgym.browser.contract import commands
from webgym.browser.contract.answers import Observe, regions_of, screenshot_info
from webgym.browser.contract.errors import CommandError, NavigationError
from webgym.browser.page.accessibility import accessibility_tree
from webgym.browser.page.elements import DocumentGoneError
from webgym.browser.page.files import Uploads
from webgym.browser.page.gestures import act, drag, slide
from webgym.browser.page.input import (
    CONTROL,
    META,
    SHIFT,
    InputDevices,
    KeyboardKey,
    find_key,
    find_keys,
)
from webgym.browser.page.observation import PageObserver
from webgym.browser.page.script import PageScript
from webgym.browser.page.settle import settle
from webgym.browser.page.tab import Tab
from webgym.browser.page.tabs import SessionTabs

LONGEST = 100_000
Operation = Literal["copy", "cut", "paste"]
_CHORDS: dict[tuple[int, str], Operation] = {
    (CONTROL, "c"): "copy",
    (CONTROL, "insert"): "copy",
    (CONTROL, "x"): "cut",
    (SHIFT, "delete"): "cut",
    (CONTROL, "v"): "paste",
    (CONTROL | SHIFT, "v"): "paste",
    (SHIFT, "insert"): "paste",
}
ANSWER_SECONDS = 30.0
"""For a server to start its answer."""
REPLACE_SECONDS = 6.0
"""For the previous page to be replaced after the answer."""
_BLANK = ("about:blank", "")


class SessionClipboard:
    """What a session has copied."""

    def __init__(self) -> None:
        self._text = ""

    async def press(self, keys: list[KeyboardKey], tab: Tab, deadline: float) -> None:
        """Press keys; copying and pasting is done here."""
        script, devices = PageScript(tab.world), InputDevices(tab)
        operation = _operation(keys)
        if operation is None:
            await devices.press(keys, deadline)
        elif operation == "paste":
            if not (await script.paste_text(self._text, deadline)).handled and self._text:
                await devices.insert(self._text, deadline)
        else:
            copied = await script.copy_selection(operation, deadline)
            self._text = copied.text[:LONGEST] or self._text
            if operation == "cut" and copied.text and not copied.handled:
                await devices.press([find_key("Delete")], deadline)


def _operation(keys: list[KeyboardKey]) -> Operation | None:
    held = sum({CONTROL if key.modifier == META else key.modifier for key in keys})
    others = [key.key.lower() for key in keys if not key.modifier]
    return _CHORDS.get((held, others[0])) if len(others) == 1 else None


class _HistoryEntry(msgspec.Struct):
    id: int
    url: str = ""


class _History(msgspec.Struct, rename="camel"):
    current_index: int
    entries: list[_HistoryEntry]


class _NavigateResult(msgspec.Struct, rename="camel"):
    loader_id: str = ""
    error_text: str = ""
    is_download: bool = False


_READ_HISTORY = msgspec.json.Decoder(_History).decode
_READ_NAVIGATING = msgspec.json.Decoder(_NavigateResult).decode


async def visit(tab: Tab, url: str, deadline: float) -> bool:
    """Open a page, until its server has answered. Raises NavigationError.

    Returns whether it replaced the previous page: a page with an endless last script stays.
    """
    now = asyncio.get_running_loop().time
    soon = min(deadline, now() + ANSWER_SECONDS)
    tab.activity.begin_navigation()
    try:
        answer = _READ_NAVIGATING(await tab.call("Page.navigate", {"url": url}, deadline=soon))
    except TimeoutError:
        tab.stop_loading()
        raise NavigationError(f"{url} did not answer in time") from None
    tab.activity.end_navigation()
    if answer.is_download and tab.keeps_downloads:
        return True
    if answer.is_download:
        raise NavigationError(f"{url} is a download; downloads are not allowed")
    if answer.error_text:
        raise NavigationError(f"{url} cannot be opened: {answer.error_text}")
    soon = min(deadline, now() + REPLACE_SECONDS)
    while tab.activity.awaits(answer.loader_id) and not tab.crashed and now() < soon:
        await tab.activity.changed(soon - now())
    return not tab.activity.awaits(answer.loader_id)


async def go_back(tab: Tab, deadline: float) -> bool:
    """Return to the previous page, if the tab has one; returns whether it had."""
    history = _READ_HISTORY(await tab.call("Page.getNavigationHistory", deadline=deadline))
    before = history.entries[: history.current_index]
    if not before or before[-1].url in _BLANK:
        return False
    tab.activity.begin_navigation()
    await tab.call("Page.navigateToHistoryEntry", {"entryId": before[-1].id}, deadline=deadline)
    return True


Result = dict[str, object]


class CommandExecutor:
    """Carries out commands. `check_url` rejects URLs that may not be opened."""

    def __init__(
        self,
        tabs: SessionTabs,
        observer: PageObserver,
        uploads: Uploads,
        check_url: Callable[[str], str],
    ) -> None:
        self._tabs = tabs
        self._observer = observer
        self._check_url = check_url
        self._uploads = uploads
        self._clipboard = SessionClipboard()

    async def execute(self, command: commands.Command, deadline: float) -> Result:
        """The result of the command. Raises CommandError if the page does not allow it.

        Raises DocumentGoneError if the page navigates in the middle of an action: its target is
        gone, and nothing is done to the next page instead.
        """
        tab = await self._prepare(command, deadline)
        try:
            return await self._execute(command, tab, deadline)
        except DocumentGoneError:
            if command.acts:
                raise
            tab = await self._prepare(command, deadline)
            return await self._execute(command, tab, deadline)

    async def _prepare(self, command: commands.Command, deadline: float) -> Tab:
        """The tab for a command. A tab that is between two pages settles first."""
        tab = await self._tabs.current_or_blank(deadline)
        if tab.activity.is_requested and not isinstance(
            command, commands.VisitPage | commands.Back | commands.Sleep
        ):
            await settle(lambda: self._tabs.current, deadline)
            tab = await self._tabs.current_or_blank(deadline)
        if command.acts:
            tab.begin_step()
        tab.enable_dialog_reports()
        return tab

    async def _execute(self, command: commands.Command, tab: Tab, deadline: float) -> Result:
        match command:
            case commands.VisitPage():
                await self._visit(tab, self._check_url(command.url), deadline)
            case commands.Back():
                return await self._back(tab, deadline)
            case commands.Sleep():
                await _sleep(command.duration, deadline)
            case _ if not command.acts:
                return await self._read(command, tab, deadline)
            case _:
                return await self._act(command, tab, deadline)
        return {"status": "success"}

    async def _act(self, command: commands.Command, tab: Tab, deadline: float) -> Result:
        match command:
            case commands.SwitchTab():
                self._tabs.switch(self._tabs.numbered(command.tab))
            case commands.CloseTab():
                self._tabs.close(self._tabs.numbered(command.tab))
                await self._tabs.current_or_blank(deadline)
            case commands.UploadCoords() | commands.UploadId():
                await self._uploads.give(command, tab, deadline)
            case commands.Keypress():
                await self._clipboard.press(find_keys(command.keys), tab, deadline)
            case commands.DragCoords() | commands.DragId():
                await drag(command, tab, deadline)
            case commands.SlideCoords() | commands.SlideId():
                return {"status": "success", "value": await slide(command, tab, deadline)}
            case _:
                return await act(command, tab, deadline)
        return {"status": "success"}

    async def _visit(self, tab: Tab, url: str, deadline: float) -> None:
        if not await visit(tab, url, deadline):
            self._tabs.close(tab)
            await visit(await self._tabs.open_blank(deadline), url, deadline)

    async def _back(self, tab: Tab, deadline: float) -> Result:
        moved = await go_back(tab, deadline)
        if not moved and len(self._tabs) > 1:
            self._tabs.close(tab)
            moved = True
        return {"status": "success", "moved": moved}

    async def _read(self, command: commands.Command, tab: Tab, deadline: float) -> Result:
        script = PageScript(tab.world)
        match command:
            case commands.GetWebpageText():
                return {"text": await script.text(command.n_lines, deadline)}
            case commands.GetInteractiveRects():
                return regions_of(await script.collect(deadline))
            case commands.GetPageMetadata():
                page = await self._observer.page_info(tab, deadline)
                about = await script.metadata(deadline)
                return {**about, **msgspec.to_builtins(page)}
            case commands.GetAccessibilityTree():
                return {"tree": await accessibility_tree(tab, deadline)}
            case commands.Screenshot():
                return await self._screenshot(command, deadline)
            case commands.GetScreenshotInfo():
                return await self._screenshot_info(deadline)
        raise NotImplementedError(command.command)

    async def _screenshot(self, command: commands.Screenshot, deadline: float) -> Result:
        observation = await self._observer.observe(Observe(command.interaction_mode), deadline)
        if observation.picture is None:
            raise CommandError("no screenshot could be taken")
        return {
            "status": "screenshot_taken",
            "media_type": observation.picture.media_type,
            "screenshot": base64.b64encode(observation.picture.data).decode(),
        }

    async def _screenshot_info(self, deadline: float) -> Result:
        """Of the last screenshot with marks; if the last one has none, of the page as it is now."""
        observation = self._observer.last
        if observation is None or not observation.elements:
            observation = await self._observer.observe(
                Observe(screenshot=None, elements=True), deadline
            )
        return screenshot_info(observation.page, observation.elements)


async def _sleep(seconds: float, deadline: float) -> None:
    left = deadline - asyncio.get_running_loop().time()
    if seconds > left:
        raise CommandError(f"a sleep of {seconds:g} s would pass the deadline of the request")
    await asyncio.sleep(seconds)
