"""Browser contexts and the tabs in them, as one Chromium reports them.

Chromium attaches to every new tab of all contexts and holds it until it is set up. It reports over
the channel of the browser itself; here each report finds the context that it belongs to. A tab gets
its identity (`command_line.identity`) before it runs, and so does a shared worker; other workers
inherit it from their tab. Service workers are reported too, and are never let run: they would
continue to work after their page is gone, and answer for it without a visible request.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import msgspec

from webgym.browser.chromium.connection import CallError, DevToolsConnection

_ATTACHED_KINDS = [
    {"type": "page"},
    {"type": "service_worker"},
    {"type": "shared_worker"},
    {"exclude": True},
]


class TargetInfo(msgspec.Struct, frozen=True, rename="camel"):
    """A tab or worker. `opener_id` is the tab whose page opened it."""

    target_id: str
    type: str
    url: str = ""
    browser_context_id: str = ""
    opener_id: str = ""


class ContextListener(Protocol):
    """The owner of a context, which is called for the events of its tabs."""

    def tab_attached(self, session: str, target: TargetInfo) -> None: ...

    def tab_detached(self, session: str) -> None: ...

    @property
    def download_folder(self) -> Path | None:
        """Where downloads are kept; None: they are refused."""

    def download_progressed(self, guid: str, received: float, state: str) -> None:
        """Called for the downloads of all contexts."""

    def identity(self, usual: Mapping[str, object] | None) -> Mapping[str, object] | None:
        """The browser identity of this context, for the usual one."""


class _Attached(msgspec.Struct, rename="camel"):
    session_id: str
    target_info: TargetInfo


class _Detached(msgspec.Struct, rename="camel"):
    session_id: str


class _DownloadProgress(msgspec.Struct, rename="camel"):
    guid: str
    received_bytes: float = 0
    state: str = ""


class _CreatedContext(msgspec.Struct, rename="camel"):
    browser_context_id: str


_READ_ATTACHED = msgspec.json.Decoder(_Attached).decode
_READ_DETACHED = msgspec.json.Decoder(_Detached).decode
_READ_PROGRESS = msgspec.json.Decoder(_DownloadProgress).decode


class Targets:
    """The contexts of one Chromium. `identity` is the browser identity that its pages present."""

    def __init__(
        self, connection: DevToolsConnection, identity: Mapping[str, object] | None = None
    ) -> None:
        self.connection = connection
        self.failed_observations = 0
        """Observations of empty pages that failed in a row, in any session."""
        self._identity = identity
        self._contexts: dict[str, ContextListener] = {}
        self._tabs: dict[str, TargetInfo] = {}

    async def start(self, deadline: float) -> None:
        """Start to attach. Raises what `DevToolsConnection.call` raises."""
        self.connection.listen(None, self._on_event)
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
        """A context with separate cookies, storage and cache; returns its id."""
        params: dict[str, object] = {"disposeOnDetach": True}
        if proxy_server is not None:
            params |= {"proxyServer": proxy_server, "proxyBypassList": "<-loopback>"}
        answer = await self.connection.call(
            "Target.createBrowserContext", params, deadline=deadline, late=self._drop_context
        )
        context = msgspec.json.decode(answer, type=_CreatedContext).browser_context_id
        self._contexts[context] = listener
        behavior: dict[str, object] = {"behavior": "deny"}
        if (folder := listener.download_folder) is not None:
            behavior = {"behavior": "allowAndName", "downloadPath": str(folder)}
        self.connection.send(
            "Browser.setDownloadBehavior",
            {**behavior, "browserContextId": context, "eventsEnabled": True},
        )
        return context

    async def dispose_context(self, context: str, deadline: float) -> None:
        """End a context with everything in it, unless it has ended already."""
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
        """Dispose of a context that was created after its caller had given up."""
        context = msgspec.json.decode(answer, type=_CreatedContext).browser_context_id
        self.connection.send("Target.disposeBrowserContext", {"browserContextId": context})

    def _on_event(self, method: str, params: msgspec.Raw) -> None:
        match method:
            case "Target.attachedToTarget":
                self._attached(_READ_ATTACHED(params))
            case "Target.detachedFromTarget":
                self._detached(_READ_DETACHED(params).session_id)
            case "Browser.downloadProgress":
                progress = _READ_PROGRESS(params)
                for owner in self._contexts.values():
                    owner.download_progressed(
                        progress.guid, progress.received_bytes, progress.state
                    )

    def _attached(self, attached: _Attached) -> None:
        target, session = attached.target_info, attached.session_id
        owner = self._contexts.get(target.browser_context_id)
        if target.type == "service_worker":
            return
        identity = self._identity if owner is None else owner.identity(self._identity)
        if identity is not None:
            self.connection.send("Emulation.setUserAgentOverride", identity, session=session)
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
