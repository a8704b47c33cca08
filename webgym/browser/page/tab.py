"""One tab: its DevTools session, its state, and our script in its page.

Everything that Chromium reports about the tab comes in by `hear`. Our script lives in a world of
its own in the main frame: it sees the page's elements, the page's scripts do not see it. It is put
there when the first call needs it, once for each document.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import msgspec

from webgym.browser.chromium.connection import CallError, Connection
from webgym.browser.chromium.targets import TargetInfo
from webgym.browser.contract.answers import VIEWPORT_HEIGHT, VIEWPORT_WIDTH, Incident
from webgym.browser.contract.errors import PageCrashedError
from webgym.browser.page import dialogs, pointer_lock
from webgym.browser.page.activity import Activity
from webgym.browser.page.script import SOURCE

TEXT_LIMIT = 500
ANSWERED_WITHIN = 10.0
"""A page that lets our script wait longer is stuck in scripts of its own."""
_WORLD = "rollgym"
_CALL = "function (name, ...given) { return this[name](...given); }"
_PAINTING = """function () {
  if (document.contentType === "text/html" && document.body === null) return "empty";
  return new Promise((done) => {
    requestAnimationFrame(() => done("painted"));
    setTimeout(() => done("blocked"), 1000);
  });
}"""
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

_logger = logging.getLogger(__name__)


class DocumentGoneError(Exception):
    """The page went on to another document while it was being asked something."""


class ScriptError(Exception):
    """Our script failed inside the page."""


class _Dialog(msgspec.Struct, rename="camel"):
    type: str
    message: str = ""


class _World(msgspec.Struct, rename="camel"):
    execution_context_id: int


class _RemoteObject(msgspec.Struct, rename="camel"):
    object_id: str | None = None
    value: msgspec.Raw = msgspec.Raw(b"null")
    description: str = ""


class _Thrown(msgspec.Struct):
    text: str = ""
    exception: _RemoteObject | None = None


class _Evaluated(msgspec.Struct, rename="camel"):
    result: _RemoteObject
    exception_details: _Thrown | None = None


class _Property(msgspec.Struct):
    name: str
    value: _RemoteObject | None = None


class _Properties(msgspec.Struct):
    result: list[_Property] = []


_READ_DIALOG = msgspec.json.Decoder(_Dialog).decode
_READ_WORLD = msgspec.json.Decoder(_World).decode
_READ_EVALUATED = msgspec.json.Decoder(_Evaluated).decode
_READ_PROPERTIES = msgspec.json.Decoder(_Properties).decode


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
        self._script: tuple[int, str] | None = None
        self._asking: set[asyncio.Timeout] = set()
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

    async def evaluate(
        self, function: str, arguments: list[object], deadline: float, *, wait: bool = False
    ) -> object:
        """What a function of our script returns; `wait`: what its promise becomes.

        Raises DocumentGoneError when the page navigates meanwhile, ScriptError when it throws,
        TimeoutError when the page is stuck in scripts of its own.
        """
        how: dict[str, object] = {"returnByValue": True, "awaitPromise": wait}
        result = await self._call_script(_CALL, [function, *arguments], how, deadline)
        return msgspec.json.decode(result.value)

    @asynccontextmanager
    async def handles(self, function: str, deadline: float) -> AsyncIterator[list[str | None]]:
        """What is in the list that a function of our script returns, for the length of the block.

        None for what is no object. Raises as `evaluate`.
        """
        how: dict[str, object] = {"objectGroup": function}
        listed = await self._call_script(_CALL, [function], how, deadline)
        try:
            params: dict[str, object] = {"objectId": listed.object_id, "ownProperties": True}
            answer = await self.call("Runtime.getProperties", params, deadline=deadline)
            yield [
                entry.value.object_id if entry.value is not None else None
                for entry in _READ_PROPERTIES(answer).result
                if entry.name.isdecimal()
            ]
        except CallError as error:
            raise DocumentGoneError(f"{function}: {error.message}") from error
        finally:
            self.send("Runtime.releaseObjectGroup", {"objectGroup": function})

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

    async def painting(self, deadline: float) -> str:
        """Whether a picture can be taken: "painted", or why none would come.

        "empty": nothing of the document has come yet. "blocked": something that it loads keeps it
        from being shown.
        """
        if self.activity.dom_ready and not self.activity.is_loading:
            return "painted"
        how: dict[str, object] = {"returnByValue": True, "awaitPromise": True}
        result = await self._call_script(_PAINTING, [], how, deadline)
        return str(msgspec.json.decode(result.value))

    def begin_step(self) -> None:
        """Something is done to the page now."""
        self.windows = 0
        self.activity.begin_step()

    def hear_dialogs(self) -> None:
        """Let all frames tell what they ask. Chromium does so only for those that exist already."""
        self.send("Runtime.addBinding", {"name": dialogs.BINDING})

    async def _call_script(
        self, function: str, arguments: list[object], how: dict[str, object], deadline: float
    ) -> _RemoteObject:
        """Call a function in the world of our script, which is its `this`."""
        soon = min(deadline, asyncio.get_running_loop().time() + ANSWERED_WITHIN)
        params: dict[str, object] = {
            "functionDeclaration": function,
            "arguments": [{"value": value} for value in arguments],
            **how,
        }
        document = self.activity.document
        try:
            async with self._while_it_stays():
                params["objectId"] = await self._provide_script(soon)
                answer = await self.call("Runtime.callFunctionOn", params, deadline=soon)
        except CallError as error:
            self._script = None
            raise DocumentGoneError(f"the page went on: {error.message}") from error
        except TimeoutError as error:
            if document != self.activity.document or self.activity.awaits_document:
                raise DocumentGoneError("the page went on") from error
            raise
        evaluated = _READ_EVALUATED(answer)
        if evaluated.exception_details is not None:
            raise ScriptError(_describe(evaluated.exception_details))
        return evaluated.result

    @asynccontextmanager
    async def _while_it_stays(self) -> AsyncIterator[None]:
        """Ask only as long as the document is there: of one that is gone no answer may come."""
        async with asyncio.timeout(None) as asking:
            self._asking.add(asking)
            try:
                yield
            finally:
                self._asking.discard(asking)

    async def _provide_script(self, deadline: float) -> str:
        document = self.activity.document
        if self._script is not None and self._script[0] == document:
            return self._script[1]
        world = await self.call(
            "Page.createIsolatedWorld",
            {"frameId": self.activity.main.id, "worldName": _WORLD},
            deadline=deadline,
        )
        answer = await self.call(
            "Runtime.evaluate",
            {"expression": SOURCE, "contextId": _READ_WORLD(world).execution_context_id},
            deadline=deadline,
        )
        evaluated = _READ_EVALUATED(answer)
        handle = evaluated.result.object_id
        if handle is None:
            thrown = evaluated.exception_details or _Thrown("it gave no object")
            raise ScriptError(f"the page script did not load: {_describe(thrown)}")
        self._script = (document, handle)
        return handle

    def _navigated(self, params: msgspec.Raw) -> None:
        document = self.activity.document
        self.activity.hear("Page.frameNavigated", params)
        if document != self.activity.document:
            self.hear_dialogs()
            for asking in self._asking:
                asking.reschedule(asyncio.get_running_loop().time())

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


def _describe(thrown: _Thrown) -> str:
    text = thrown.exception.description if thrown.exception else ""
    return (text or thrown.text)[:TEXT_LIMIT]
