"""One tab: its DevTools session, its activity, and the world of our script in its page.

All events of Chromium about the tab go to `handle_event`.

*Dialogs* are answered before they open. A native dialog stops the page until it is answered, and
one that is open while the page navigates stops its tab for good. So `alert`, `confirm` and `prompt`
are replaced in every frame, before the scripts of the page run, by functions that agree at once. A
document that opens dialogs without end gets an error. Only the question whether to leave a page
(`beforeunload`) is still a native dialog.

The replaced functions report over a binding: a function that Chromium puts into the page, and whose
calls reach us as events, even if the page navigates right afterwards. Chromium adds it only after
the first scripts of a page have run; dialogs of those are reported then. The property that receives
the binding hides it, so that the page cannot use it.

*Pointer lock* is not available. A browser without a screen moves a locked pointer back to the
middle with an event that moves it again, and so loops and blocks all other sessions. Pages get the
answer that they would get on a device without a mouse.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from string import Template

import msgspec

from webgym.browser.chromium.connection import DevToolsConnection
from webgym.browser.chromium.targets import TargetInfo
from webgym.browser.contract.answers import VIEWPORT_HEIGHT, VIEWPORT_WIDTH, Incident
from webgym.browser.contract.errors import PageCrashedError
from webgym.browser.page.activity import PageActivity
from webgym.browser.page.world import DocumentGoneError, IsolatedWorld

TEXT_LIMIT = 500
MAX_DIALOGS = 100
"""Dialogs that one document may open; further calls throw."""
MAX_REPORTED = 20
BINDING = f"_{secrets.token_hex(8)}"


class _Template(Template):
    delimiter = "@"


DIALOG_SCRIPT = _Template(
    """(() => {
  const found = Object.getOwnPropertyDescriptor(window, "@name");
  if (found?.set) return;
  const { stringify } = JSON;
  const slice = Function.prototype.call.bind(String.prototype.slice);
  let report = found?.value;
  let unreported = [];
  let count = 0;
  delete window["@name"];
  Object.defineProperty(window, "@name", {
    get: () => undefined,
    set: (given) => {
      if (report || typeof given !== "function") return;
      report = given;
      for (let index = 0; index < unreported.length; index += 1) report(unreported[index]);
      unreported = [];
    },
  });
  const open = (type, message, answer) => {
    count += 1;
    if (count > @limit) throw new Error(`too many dialogs: ${type}`);
    const dialog = stringify([type, slice(`${message ?? ""}`, 0, @text)]);
    if (count > @reported) return answer;
    if (report) report(dialog);
    else unreported[unreported.length] = dialog;
    return answer;
  };
  window.alert = function alert(message) { return open("alert", message, undefined); };
  window.confirm = function confirm(message) { return open("confirm", message, true); };
  window.prompt = function prompt(message, initial) {
    return open("prompt", message, `${initial ?? ""}`);
  };
  window.print = function print() { return open("print", "", undefined); };
})()"""
).substitute(name=BINDING, reported=MAX_REPORTED, limit=MAX_DIALOGS, text=TEXT_LIMIT)


class _Called(msgspec.Struct):
    name: str
    payload: str


_READ_CALLED = msgspec.json.Decoder(_Called).decode
_READ_DIALOG_CALL = msgspec.json.Decoder(tuple[str, str]).decode


def read_dialog(params: msgspec.Raw) -> str | None:
    """The dialog that a call of the binding reports, as text."""
    called = _READ_CALLED(params)
    if called.name != BINDING:
        return None
    try:
        kind, message = _READ_DIALOG_CALL(called.payload)
    except msgspec.DecodeError:
        return None
    return f"{kind[:20]}: {message[:TEXT_LIMIT]}"


POINTER_LOCK_SCRIPT = """(() => {
  const refuse = Promise.reject.bind(Promise);
  Element.prototype.requestPointerLock = function requestPointerLock() {
    setTimeout(() => document.dispatchEvent(new Event("pointerlockerror")), 0);
    return refuse(new DOMException("The pointer cannot be locked.", "NotSupportedError"));
  };
})()"""


_FIRST = f"{DIALOG_SCRIPT};{POINTER_LOCK_SCRIPT}"
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
    """A tab that Chromium has attached. `report` is called for incidents."""

    def __init__(
        self,
        connection: DevToolsConnection,
        session: str,
        target: TargetInfo,
        report: Callable[[Incident], None],
    ) -> None:
        self.session = session
        self.target = target
        self.activity = PageActivity(target.target_id, asyncio.get_running_loop().time)
        self.crashed = False
        self.closed = False
        self.windows = 0
        """How many windows it has opened in this step."""
        self._connection = connection
        self._report = report
        self.world = IsolatedWorld(self, self.activity)
        self._handlers: dict[str, Callable[[msgspec.Raw], None]] = {
            "Page.javascriptDialogOpening": self._answer_dialog,
            "Page.frameNavigated": self._navigated,
            "Page.windowOpen": self._window_opened,
            "Runtime.bindingCalled": self._dialog_reported,
            "Inspector.targetCrashed": self._crash,
        }

    @property
    def is_over(self) -> bool:
        """Whether it has crashed or was closed."""
        return self.crashed or self.closed

    def start(self) -> None:
        """Set the tab up and let it run; Chromium held it until now."""
        self._connection.listen(self.session, self.handle_event)
        for method, params in _SETUP:
            self.send(method, params)
        self.send("Runtime.runIfWaitingForDebugger")

    def handle_event(self, method: str, params: msgspec.Raw) -> None:
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
        await self.call("Fetch.enable", {"patterns": patterns}, deadline=deadline)
        try:
            yield
        finally:
            self.send("Fetch.disable")

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
            self.enable_dialog_reports()
            self.world.document_gone()

    def _window_opened(self, _: msgspec.Raw) -> None:
        self.windows += 1

    def _dialog_reported(self, params: msgspec.Raw) -> None:
        dialog = read_dialog(params)
        if dialog is not None:
            self._report(Incident("dialog", dialog))

    def _answer_dialog(self, params: msgspec.Raw) -> None:
        """Accept the `beforeunload` dialog. All others are replaced by `DIALOG_SCRIPT`."""
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
        return PageCrashedError(f"the page at {where} crashed: visit it again or visit another one")
