"""One tab: its DevTools session, its activity, and the world of our script in its page.

All events of Chromium about the tab go to `handle_event`. Before the
scripts of a page, `early_script` runs in each of its documents.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import msgspec

from webgym.browser.chromium.connection import DevToolsConnection
from webgym.browser.chromium.targets import TargetInfo
from webgym.browser.contract.answers import Incident
from webgym.browser.contract.errors import PageCrashedError
from webgym.browser.contract.profile import DEFAULT_PROFILE, SessionProfile, origin_of
from webgym.browser.page.activity import PageActivity
from webgym.browser.page.authentication import HttpAuthentication, read_paused
from webgym.browser.page.early import (
    BINDING,
    TEXT_LIMIT,
    describe_dialog,
    early_script,
    read_dialog,
)
from webgym.browser.page.elements import DocumentGoneError
from webgym.browser.page.emulation import tab_commands
from webgym.browser.page.workers import TabWorkers
from webgym.browser.page.world import IsolatedWorld

_SETUP: tuple[tuple[str, dict[str, object]], ...] = (
    ("Page.enable", {}),
    ("Network.enable", {"maxTotalBufferSize": 0, "maxResourceBufferSize": 0}),
    ("Inspector.enable", {}),
    ("Page.setInterceptFileChooserDialog", {"enabled": True}),
    ("Emulation.setFocusEmulationEnabled", {"enabled": True}),
)


_HTML = [{"name": "content-type", "value": "text/html"}]


class _Dialog(msgspec.Struct, rename="camel"):
    type: str
    message: str = ""


class _Destination(msgspec.Struct, rename="camel"):
    url: str = ""
    frame_id: str = ""


_OPENED = frozenset({"http", "https", "about", "blob", "javascript"})
_FOR_PROGRAMS = frozenset({"mailto", "tel", "sms", "callto", "skype", "whatsapp", "tg", "intent"})
_READ_DESTINATION = msgspec.json.Decoder(_Destination).decode


class _Dragged(msgspec.Struct):
    data: msgspec.Raw


class Download(msgspec.Struct, frozen=True, rename="camel"):
    """A download that the page or a frame in it began. Chromium names its file by the `guid`."""

    url: str
    guid: str = ""
    suggested_filename: str = ""


class FileField(msgspec.Struct, rename="camel", frozen=True):
    """A field for files. `mode` is `selectSingle` or `selectMultiple`."""

    backend_node_id: int | None = None
    mode: str = ""


_READ_DRAGGED = msgspec.json.Decoder(_Dragged).decode
_READ_DOWNLOAD = msgspec.json.Decoder(Download).decode
_READ_FILE_FIELD = msgspec.json.Decoder(FileField).decode
_READ_DIALOG = msgspec.json.Decoder(_Dialog).decode


class Tab:
    """A tab that Chromium has attached. `report` is called for incidents."""

    def __init__(
        self,
        connection: DevToolsConnection,
        session: str,
        target: TargetInfo,
        report: Callable[[Incident], None],
        profile: SessionProfile = DEFAULT_PROFILE,
    ) -> None:
        self.session = session
        self.target = target
        self.activity = PageActivity(target.target_id, asyncio.get_running_loop().time)
        self.crashed = False
        self.closed = False
        self.windows = 0
        """How many windows it has opened in this step."""
        self.number = 1
        """Its number in the session, for people and agents."""
        self.title = ""
        """Its title at the last observation."""
        self.dragged: msgspec.Raw | None = None
        """What a drag carries that the browser would have started."""
        self.file_field: FileField | None = None
        """The field whose file dialog was requested last."""
        self.visited: dict[str, None] = {}
        """The origins of its pages, oldest first."""
        self.viewport = profile.viewport
        self.keeps_downloads = profile.downloads
        self.listener: Callable[[str, msgspec.Raw], None] | None = None
        """Gets all events of the tab, for a recording."""
        self.on_download: Callable[[Download], None] | None = None
        self._connection = connection
        self._report = report
        self._profile = profile
        credentials = profile.http_credentials
        self._authentication = HttpAuthentication(credentials, self.send) if credentials else None
        self.world = IsolatedWorld(self, self.activity)
        self.workers = TabWorkers(connection, session, self.activity.wake, self.handle_event)
        self._handlers: dict[str, Callable[[msgspec.Raw], None]] = {
            "Page.javascriptDialogOpening": self._answer_dialog,
            "Page.frameNavigated": self._navigated,
            "Page.windowOpen": self._window_opened,
            "Page.frameScheduledNavigation": self._navigation_scheduled,
            "Runtime.bindingCalled": self._dialog_reported,
            "Inspector.targetCrashed": self._crash,
            "Input.dragIntercepted": self._drag_intercepted,
            "Page.fileChooserOpened": self._file_chooser_opened,
            "Page.downloadWillBegin": self._download_began,
            **self.workers.handlers,
        }
        if self._authentication is not None:
            self._handlers |= self._authentication.handlers

    @property
    def is_over(self) -> bool:
        """Whether it has crashed or was closed."""
        return self.crashed or self.closed

    @property
    def got_no_page(self) -> bool:
        """Whether its first navigation has ended without a document, or was given up."""
        activity = self.activity
        return activity.document == 0 and (activity.was_given_up or not activity.is_navigating)

    def start(self) -> None:
        """Set the tab up and let it run; Chromium held it until now."""
        self._connection.listen(self.session, self.handle_event)
        for method, params in (*_SETUP, *tab_commands(self._profile)):
            self.send(method, params)
        source = early_script(accepts_dialogs=self._profile.accept_dialogs)
        # The first, empty document of a tab can have scripts only if a page has opened it.
        by_page = self.target.opener_id != ""
        self.send(
            "Page.addScriptToEvaluateOnNewDocument", {"source": source, "runImmediately": by_page}
        )
        self.world.prepare()
        self.workers.start()
        if self._authentication is not None:
            self._authentication.start()
        self.send("Runtime.runIfWaitingForDebugger")

    def handle_event(self, method: str, params: msgspec.Raw) -> None:
        if self.listener is not None:
            self.listener(method, params)
        handler = self._handlers.get(method)
        if handler is None:
            self.activity.handle_event(method, params)
        else:
            handler(params)

    def send(self, method: str, params: dict[str, object] | None = None) -> None:
        self._connection.send(method, params, session=self.session)

    async def call(
        self, method: str, params: dict[str, object] | None = None, *, deadline: float
    ) -> msgspec.Raw:
        """The same as `DevToolsConnection.call`.

        Also raises PageCrashedError as soon as the page crashes, and DocumentGoneError if the tab
        is closed.
        """
        if self.crashed:
            raise self._crash_error()
        if self.closed:
            raise DocumentGoneError(f"{method}: the tab was closed")
        return await self._connection.call(method, params, session=self.session, deadline=deadline)

    def give_up_navigation(self) -> None:
        """Stay on the current page, because the next one did not arrive in time."""
        self.stop_loading()
        if not self.activity.document:
            self.activity.give_up()
            self._report(Incident("limit", "the page of a new tab did not arrive in time"))
            return
        where = self.activity.main.url[:TEXT_LIMIT]
        self._report(
            Incident("limit", f"the next page did not arrive in time; the tab stays at {where}")
        )

    def stop_loading(self) -> None:
        self.send("Page.stopLoading")

    @asynccontextmanager
    async def navigation_blocked(self, deadline: float) -> AsyncIterator[None]:
        """Block navigations of the page for the length of the block."""
        patterns = [{"resourceType": "Document"}]
        if self._authentication is not None:
            self._authentication.stop()
        await self.call("Fetch.enable", {"patterns": patterns}, deadline=deadline)
        try:
            yield
        finally:
            self.send("Fetch.disable")
            if self._authentication is not None:
                self._authentication.start()

    async def answer_requests(self, deadline: float) -> None:
        """Answer all requests of this tab with an empty page from now on, without the network."""
        self._handlers["Fetch.requestPaused"] = self._answer_request
        await self.call("Fetch.enable", {"patterns": [{"urlPattern": "*"}]}, deadline=deadline)

    def _answer_request(self, params: msgspec.Raw) -> None:
        answer = {"responseCode": 200, "responseHeaders": _HTML, "body": ""}
        self.send("Fetch.fulfillRequest", {**answer, "requestId": read_paused(params)})

    def begin_step(self) -> None:
        """Start a step, in which the page is changed."""
        self.windows = 0
        self.activity.begin_step()

    def enable_dialog_reports(self) -> None:
        """Let all existing frames report their dialogs. New frames need another call."""
        self.send("Runtime.addBinding", {"name": BINDING})

    def _navigated(self, params: msgspec.Raw) -> None:
        document = self.activity.document
        self.activity.handle_event("Page.frameNavigated", params)
        if document != self.activity.document:
            if (origin := origin_of(self.activity.main.url)) is not None:
                self.visited[origin] = None
            self.enable_dialog_reports()
            self.world.document_gone()

    def forget_drag(self) -> None:
        self.dragged = None

    def _drag_intercepted(self, params: msgspec.Raw) -> None:
        self.dragged = _READ_DRAGGED(params).data

    def _file_chooser_opened(self, params: msgspec.Raw) -> None:
        self.file_field = _READ_FILE_FIELD(params)
        self.activity.wake()

    def _download_began(self, params: msgspec.Raw) -> None:
        if self.on_download is not None:
            self.on_download(_READ_DOWNLOAD(params))

    def _window_opened(self, params: msgspec.Raw) -> None:
        self.windows += 1
        self._report_other_scheme(_READ_DESTINATION(params).url)

    def _navigation_scheduled(self, params: msgspec.Raw) -> None:
        destination = _READ_DESTINATION(params)
        if destination.frame_id == self.target.target_id:
            self._report_other_scheme(destination.url)

    def _report_other_scheme(self, url: str) -> None:
        """Report an address that Chromium does not open for a page; it says nothing by itself."""
        scheme = url.partition(":")[0].lower()
        if scheme in _FOR_PROGRAMS:
            self._report(Incident("refused", f"{url[:TEXT_LIMIT]} is not opened by a browser"))
        elif ":" in url and scheme not in _OPENED:
            self._report(Incident("refused", f"pages may not open {url[:TEXT_LIMIT]}"))

    def _dialog_reported(self, params: msgspec.Raw) -> None:
        dialog = read_dialog(params)
        if dialog is not None:
            self._report(Incident("dialog", dialog))

    def _answer_dialog(self, params: msgspec.Raw) -> None:
        """Accept the `beforeunload` dialog. All others are replaced by `early_script`."""
        dialog = _READ_DIALOG(params)
        self._report(
            Incident("dialog", describe_dialog(dialog.type, dialog.message[:TEXT_LIMIT], True))
        )
        self.send("Page.handleJavaScriptDialog", {"accept": True})

    def _crash(self, _: msgspec.Raw) -> None:
        self.crashed = True
        self._connection.fail(self.session, self._crash_error())
        self._report(Incident("crash", f"the page crashed: {self.activity.main.url[:TEXT_LIMIT]}"))
        self.activity.wake()

    def _crash_error(self) -> PageCrashedError:
        where = self.activity.main.url[:TEXT_LIMIT]
        return PageCrashedError(f"the page at {where} crashed: visit it again or visit another one")
