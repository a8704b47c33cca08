"""One tab: its DevTools session, its state, and the world of our script in its page.

Everything that Chromium reports about the tab comes in by `hear`.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import msgspec

from webgym.browser.chromium.connection import Connection
from webgym.browser.chromium.targets import TargetInfo
from webgym.browser.contract.answers import VIEWPORT_HEIGHT, VIEWPORT_WIDTH, Incident
from webgym.browser.contract.errors import PageCrashedError
from webgym.browser.page import dialogs, pointer_lock
from webgym.browser.page.activity import Activity
from webgym.browser.page.errors import DocumentGoneError
from webgym.browser.page.world import World

TEXT_LIMIT = 500
_FIRST = f"{dialogs.SCRIPT};{pointer_lock.SCRIPT}"
"""Runs in every document before its own scripts."""
_SETUP: tuple[tuple[str, dict[str, object]], ...] = (
    ("Page.enable", {}),
    ("Network.enable", {"maxTotalBufferSize": 0, "maxResourceBufferSize": 0}),
    ("Inspector.enable", {}),
    ("Page.addScriptToEvaluateOnNewDocument", {"source": _FIRST, "runImmediately": True}),
    ("Page.setInterceptFileChooserDialog", {"enabled": True}),
    ("Emulation.setFocusEmulationEnabled", {"enabled": True}),
    (
        "Emulation.setDeviceMetricsOverride",
        {
            "width": VIEWPORT_WIDTH,
            "height": VIEWPORT_HEIGHT,
            "deviceScaleFactor": 1,
            "mobile": False,
        },
    ),
)


class _Dialog(msgspec.Struct, rename="camel"):
    type: str
    message: str = ""


_READ_DIALOG = msgspec.json.Decoder(_Dialog).decode


class Tab:
    """A tab that Chromium attached us to. `report` is told what happens beside what was asked."""

    def __init__(
        self,
        connection: Connection,
        session: str,
        target: TargetInfo,
        report: Callable[[Incident], None],
    ) -> None:
        self.session = session
        self.target = target
        self.activity = Activity(target.target_id, asyncio.get_running_loop().time)
        self.crashed = False
        self.closed = False
        self.windows = 0
        """How many others it has opened in this step."""
        self._connection = connection
        self._report = report
        self.world = World(self, self.activity)
        self._handlers: dict[str, Callable[[msgspec.Raw], None]] = {
            "Page.javascriptDialogOpening": self._answer_dialog,
            "Page.frameNavigated": self._navigated,
            "Page.windowOpen": self._window_opened,
            "Runtime.bindingCalled": self._dialog_asked,
            "Inspector.targetCrashed": self._crash,
        }

    @property
    def is_over(self) -> bool:
        """Whether nothing more will happen in it."""
        return self.crashed or self.closed

    def begin(self) -> None:
        """Set the tab up and let it run; it was held until now."""
        self._connection.listen(self.session, self.hear)
        for method, params in _SETUP:
            self.send(method, params)
        self.send("Runtime.runIfWaitingForDebugger")

    def hear(self, method: str, params: msgspec.Raw) -> None:
        handler = self._handlers.get(method)
        if handler is None:
            self.activity.hear(method, params)
        else:
            handler(params)

    def send(self, method: str, params: dict[str, object] | None = None) -> None:
        self._connection.send(method, params, session=self.session)

    async def call(
        self, method: str, params: dict[str, object] | None = None, *, deadline: float
    ) -> msgspec.Raw:
        """As `Connection.call`.

        Also raises PageCrashedError, at once, when the page crashes, and DocumentGoneError when
        the tab is closed.
        """
        if self.crashed:
            raise self._crash_error()
        if self.closed:
            raise DocumentGoneError(f"{method}: the tab was closed")
        return await self._connection.call(method, params, session=self.session, deadline=deadline)

    def give_up_navigation(self) -> None:
        """Stay on the page that is there: the next did not come in time."""
        self.stop_loading()
        where = self.activity.main.url[:TEXT_LIMIT]
        self._report(Incident("limit", f"the next page did not come in time; it stays at {where}"))

    def stop_loading(self) -> None:
        self.send("Page.stopLoading")

    @asynccontextmanager
    async def held(self, deadline: float) -> AsyncIterator[None]:
        """Let the page go on to no other for the length of the block."""
        patterns = [{"resourceType": "Document"}]
        await self.call("Fetch.enable", {"patterns": patterns}, deadline=deadline)
        try:
            yield
        finally:
            self.send("Fetch.disable")

    def begin_step(self) -> None:
        """Something is done to the page now."""
        self.windows = 0
        self.activity.begin_step()

    def hear_dialogs(self) -> None:
        """Let all frames tell what they ask. Chromium does so only for those that exist already."""
        self.send("Runtime.addBinding", {"name": dialogs.BINDING})

    def _navigated(self, params: msgspec.Raw) -> None:
        document = self.activity.document
        self.activity.hear("Page.frameNavigated", params)
        if document != self.activity.document:
            self.hear_dialogs()
            self.world.document_gone()

    def _window_opened(self, _: msgspec.Raw) -> None:
        self.windows += 1

    def _dialog_asked(self, params: msgspec.Raw) -> None:
        dialog = dialogs.read_dialog(params)
        if dialog is not None:
            self._report(Incident("dialog", dialog))

    def _answer_dialog(self, params: msgspec.Raw) -> None:
        """Only a page that asks whether to leave it opens one: `dialogs` answers the others."""
        dialog = _READ_DIALOG(params)
        self._report(Incident("dialog", f"{dialog.type}: {dialog.message[:TEXT_LIMIT]}"))
        self.send("Page.handleJavaScriptDialog", {"accept": True})

    def _crash(self, _: msgspec.Raw) -> None:
        self.crashed = True
        self._connection.fail(self.session, self._crash_error())
        self._report(Incident("crash", f"the page crashed: {self.activity.main.url[:TEXT_LIMIT]}"))
        self.activity.wake()

    def _crash_error(self) -> PageCrashedError:
        where = self.activity.main.url[:TEXT_LIMIT]
        return PageCrashedError(f"the page at {where} crashed; visit another or the same again")
