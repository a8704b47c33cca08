"""Browser contexts and the tabs in them, as one Chromium reports them.

Chromium is told once to attach to every tab that opens anywhere, and to hold a new one until it was
looked at. Its reports come over the browser's own channel; here each finds the context that it
concerns. A tab is told who it is (`identity`) before it runs, and so is a worker that several tabs
share; other workers know it from their tab. Service workers are reported too, and held for ever:
they would go on working when their page is gone, and answer for it without a request that anybody
sees.
"""

from collections.abc import Mapping
from typing import Protocol

import msgspec

from webgym.browser.chromium.connection import CallError, Connection

_ATTACHED_KINDS = [
    {"type": "page"},
    {"type": "service_worker"},
    {"type": "shared_worker"},
    {"exclude": True},
]


class TargetInfo(msgspec.Struct, frozen=True, rename="camel"):
    """A tab or worker. `opener_id` is the tab whose script opened it."""

    target_id: str
    type: str
    url: str = ""
    opener_id: str | None = None
    browser_context_id: str = ""


class ContextListener(Protocol):
    """Whoever owns a context hears what happens to its tabs."""

    def tab_attached(self, session: str, target: TargetInfo) -> None: ...

    def tab_detached(self, session: str) -> None: ...

    def download_refused(self, url: str) -> None: ...


class _Attached(msgspec.Struct, rename="camel"):
    session_id: str
    target_info: TargetInfo


class _Detached(msgspec.Struct, rename="camel"):
    session_id: str


class _Download(msgspec.Struct, rename="camel"):
    frame_id: str
    url: str


class _Context(msgspec.Struct, rename="camel"):
    browser_context_id: str


_READ_ATTACHED = msgspec.json.Decoder(_Attached).decode
_READ_DETACHED = msgspec.json.Decoder(_Detached).decode
_READ_DOWNLOAD = msgspec.json.Decoder(_Download).decode


class Targets:
    """The contexts of one Chromium. `identity` is what its pages say that they run in."""

    def __init__(
        self, connection: Connection, identity: Mapping[str, object] | None = None
    ) -> None:
        self.connection = connection
        self.unseen = 0
        """Looks in a row, of any session, that showed nothing of an empty page."""
        self._identity = identity
        self._contexts: dict[str, ContextListener] = {}
        self._tabs: dict[str, TargetInfo] = {}

    async def start(self, deadline: float) -> None:
        """Begin to attach. Raises what `Connection.call` raises."""
        self.connection.listen(None, self._hear)
        await self.connection.call(
            "Target.setAutoAttach",
            {
                "autoAttach": True,
                "waitForDebuggerOnStart": True,
                "flatten": True,
                "filter": _ATTACHED_KINDS,
            },
            deadline=deadline,
        )

    async def create_context(
        self, proxy_server: str | None, listener: ContextListener, deadline: float
    ) -> str:
        """A context with cookies, storage and cache of its own; its id."""
        params: dict[str, object] = {"disposeOnDetach": True}
        if proxy_server is not None:
            params |= {"proxyServer": proxy_server, "proxyBypassList": "<-loopback>"}
        answer = await self.connection.call(
            "Target.createBrowserContext", params, deadline=deadline, late=self._drop_context
        )
        context = msgspec.json.decode(answer, type=_Context).browser_context_id
        self._contexts[context] = listener
        self.connection.send(
            "Browser.setDownloadBehavior",
            {"behavior": "deny", "browserContextId": context, "eventsEnabled": True},
        )
        return context

    async def dispose_context(self, context: str, deadline: float) -> None:
        """End a context with everything in it; one that is gone already is fine."""
        self._contexts.pop(context, None)
        for session, tab in list(self._tabs.items()):
            if tab.browser_context_id == context:
                self.connection.unlisten(session)
        try:
            await self.connection.call(
                "Target.disposeBrowserContext", {"browserContextId": context}, deadline=deadline
            )
        except CallError:
            return

    def _drop_context(self, answer: msgspec.Raw) -> None:
        """It was made when nobody waited for it any more."""
        context = msgspec.json.decode(answer, type=_Context).browser_context_id
        self.connection.send("Target.disposeBrowserContext", {"browserContextId": context})

    def _hear(self, method: str, params: msgspec.Raw) -> None:
        match method:
            case "Target.attachedToTarget":
                self._attached(_READ_ATTACHED(params))
            case "Target.detachedFromTarget":
                self._detached(_READ_DETACHED(params).session_id)
            case "Browser.downloadWillBegin":
                self._download(_READ_DOWNLOAD(params))

    def _attached(self, attached: _Attached) -> None:
        target, session = attached.target_info, attached.session_id
        owner = self._contexts.get(target.browser_context_id)
        if target.type == "service_worker":
            return
        if self._identity is not None:
            self.connection.send("Emulation.setUserAgentOverride", self._identity, session=session)
        if target.type == "shared_worker":
            self.connection.send("Runtime.runIfWaitingForDebugger", session=session)
            return
        if owner is None:
            self.connection.send("Runtime.runIfWaitingForDebugger", session=session)
            self.connection.send("Target.closeTarget", {"targetId": target.target_id})
            return
        self._tabs[session] = target
        owner.tab_attached(session, target)

    def _detached(self, session: str) -> None:
        tab = self._tabs.pop(session, None)
        self.connection.unlisten(session)
        owner = self._contexts.get(tab.browser_context_id) if tab else None
        if owner is not None:
            owner.tab_detached(session)

    def _download(self, download: _Download) -> None:
        """A tab's main frame has the tab's id; of other frames the owner is not known."""
        for tab in self._tabs.values():
            owner = self._contexts.get(tab.browser_context_id)
            if tab.target_id == download.frame_id and owner is not None:
                owner.download_refused(download.url)
