"""The browser server's client: sessions to act in, over pooled connections.

*Sessions.* `async with client.session() as session:` acquires a session and releases it at the end
of the block (see `webgym.client.sessions`).

*Time.* Every request has a deadline: the client's `deadline_seconds`, or `within`, and never later
than the deadline of the rollout it is made for (`rollgym.servers.context`).

*Errors* are those of `webgym.browser.contract.errors`. A request that changes nothing is repeated a
few times where the server does not respond. A command is not repeated, because it may have been
carried out: it raises ServerUnreachableError.

`webgym.client.sync_client` has the same methods without `await`, for notebooks.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

import msgspec

from webgym.actions.space import Viewport
from webgym.browser.contract import commands
from webgym.browser.contract.answers import (
    ImageFormat,
    Lease,
    Observe,
    Picture,
    ServerInfo,
    StepAnswer,
)
from webgym.browser.contract.commands import (
    LONGEST_DEADLINE,
    LONGEST_WAIT,
    Command,
    InteractionMode,
)
from webgym.browser.contract.errors import SessionLostError
from webgym.browser.contract.profile import (
    DEFAULT_PROFILE,
    RECORDING_TYPES,
    RecordingKind,
    SessionProfile,
    StorageState,
)
from webgym.browser.http_client import BrowserHttpClient
from webgym.browser.responses import SLACK, Reader, json_reader, picture_reader
from webgym.client.sessions import DEFAULT_URL, SessionClient, request_headers

P = ParamSpec("P")
T = TypeVar("T")


_LEASE = json_reader(Lease)
_INFO = json_reader(ServerInfo)
_STEP = json_reader(StepAnswer)
_RESULT = json_reader(dict[str, object])
_VIEWPORT = json_reader(Viewport)
_STORAGE = json_reader(StorageState)
_ANYTHING = json_reader(object)


class BrowserClient(SessionClient["BrowserSession"]):
    """The browser server at `url`. Without a token that of CPU_CLUSTER_TOKEN is sent, if set.

    `connections` bounds the concurrent requests; further ones wait, within their deadlines.
    `profile` is that of its sessions.
    """

    def __init__(
        self,
        url: str = DEFAULT_URL,
        token: str | None = None,
        deadline_seconds: float = 60.0,
        connections: int = 512,
        profile: SessionProfile = DEFAULT_PROFILE,
    ) -> None:
        super().__init__(profile)
        self.caller = BrowserHttpClient(url, request_headers(token), deadline_seconds, connections)

    async def __aenter__(self) -> Self:
        self.caller.open()
        return self

    async def close(self) -> None:
        await super().close()
        await self.caller.close()

    async def info(self) -> ServerInfo:
        """The nodes as the server sees them. Raises ServerUnreachableError, UnauthorizedError."""
        return await self.caller.ask("GET", "/info", _INFO, repeatable=True)

    async def _acquire(
        self, lifetime_mins: float, deadline: float, profile: SessionProfile
    ) -> "BrowserSession":
        left = max(0.0, deadline - asyncio.get_running_loop().time())
        wait = min(left, LONGEST_WAIT)
        query = {"lifetime_mins": f"{lifetime_mins:g}", "wait_seconds": f"{wait:.3f}"}
        body = None if profile == DEFAULT_PROFILE else msgspec.json.encode(profile)
        lease = await self.caller.ask("POST", "/get", _LEASE, query, body=body, within=left + SLACK)
        return BrowserSession(self.caller, lease)


def _command(
    kind: Callable[P, Command],
) -> "Callable[Concatenate[BrowserSession, P], Coroutine[Any, Any, None]]":
    """The method that carries out one command."""

    async def method(self: "BrowserSession", /, *args: P.args, **kwargs: P.kwargs) -> None:
        await self.execute(kind(*args, **kwargs))

    method.__doc__ = kind.__doc__
    return method


class BrowserSession:
    """One session of the browser server, until it is released.

    All methods raise SessionLostError when the session has ended, ServerUnreachableError and
    StepDeadlineError.
    """

    def __init__(self, caller: BrowserHttpClient, lease: Lease) -> None:
        self.lease = lease
        self._caller = caller
        self._names = {"instance_id": lease.instance_id, "node": lease.node}
        self._query = {
            **self._names,
            "deadline_seconds": f"{_deadline_seconds(caller.deadline_seconds):g}",
        }

    async def step(
        self,
        command: Command | None = None,
        observe: Observe | None = None,
        *,
        within: float | None = None,
    ) -> StepAnswer:
        """Carry out a command, let the page settle, and observe, in one round trip.

        A command that the page prevents is reported in the answer's `error`.
        """
        body: dict[str, object] = {**self._names, "observe": observe or Observe()}
        if command is not None:
            body[command.command] = command
        return await self._post("/step", body, _STEP, command, within)

    async def execute(self, command: Command, *, within: float | None = None) -> dict[str, object]:
        """Carry out a command. Raises CommandError where the page prevents it."""
        body: dict[str, object] = {**self._names, command.command: command}
        return await self._post("/execute", body, _RESULT, command, within)

    async def screenshot(
        self,
        mode: InteractionMode = "coordinates",
        format: ImageFormat = "png",  # noqa: A002
    ) -> Picture:
        """A screenshot of the page."""
        query = self._query | {"interaction_mode": mode, "format": format}
        read = picture_reader(f"image/{format}")
        return await self._caller.ask("GET", "/screenshot", read, query, repeatable=True)

    async def probe(self) -> bool:
        """Whether the session still exists."""
        try:
            await self._caller.ask("GET", "/probe", _ANYTHING, self._query, repeatable=True)
        except SessionLostError:
            return False
        return True

    async def metadata(self) -> Viewport:
        """The size of the viewport."""
        return await self._caller.ask("GET", "/metadata", _VIEWPORT, self._query, repeatable=True)

    async def recording(self, kind: RecordingKind) -> bytes:
        """The HAR or the video (animated WebP) so far, where the profile asks for it."""
        query = self._query | {"kind": kind}
        if kind == "har":
            har = await self._caller.ask("GET", "/recording", _ANYTHING, query, repeatable=True)
            return msgspec.json.encode(har)
        read = picture_reader(RECORDING_TYPES[kind])
        return (await self._caller.ask("GET", "/recording", read, query, repeatable=True)).data

    async def storage_state(self) -> StorageState:
        """Cookies and local storage, for the profile of another session."""
        return await self._caller.ask(
            "GET", "/storage_state", _STORAGE, self._query, repeatable=True
        )

    async def reset(self, *, within: float | None = None) -> None:
        """Release the session; a session that has ended already is ignored."""
        try:
            await self._caller.ask(
                "POST", "/reset", _ANYTHING, self._query, within=within, repeatable=True
            )
        except SessionLostError:
            return

    async def get_webpage_text(self, n_lines: int = 100) -> str:
        """The text of the page, at most `n_lines` lines."""
        return str((await self.execute(commands.GetWebpageText(n_lines)))["text"])

    async def get_page_metadata(self) -> dict[str, object]:
        return await self.execute(commands.GetPageMetadata())

    async def get_interactive_rects(self) -> dict[str, object]:
        return await self.execute(commands.GetInteractiveRects())

    async def get_accessibility_tree(self) -> dict[str, object]:
        return await self.execute(commands.GetAccessibilityTree())

    async def get_screenshot_info(self) -> dict[str, object]:
        return await self.execute(commands.GetScreenshotInfo())

    visit_page = _command(commands.VisitPage)
    back = _command(commands.Back)
    click_coords = _command(commands.ClickCoords)
    click_id = _command(commands.ClickId)
    fill_coords = _command(commands.FillCoords)
    fill_id = _command(commands.FillId)
    select_option = _command(commands.SelectOption)
    drag_coords = _command(commands.DragCoords)
    drag_id = _command(commands.DragId)
    select_option_coords = _command(commands.SelectOptionCoords)
    slide_coords = _command(commands.SlideCoords)
    slide_id = _command(commands.SlideId)
    upload_coords = _command(commands.UploadCoords)
    upload_id = _command(commands.UploadId)
    switch_tab = _command(commands.SwitchTab)
    close_tab = _command(commands.CloseTab)
    hover_coords = _command(commands.HoverCoords)
    hover_id = _command(commands.HoverId)
    hover_and_scroll_coords = _command(commands.HoverAndScrollCoords)
    scroll_id = _command(commands.ScrollId)
    page_down = _command(commands.PageDown)
    page_up = _command(commands.PageUp)
    keypress = _command(commands.Keypress)
    sleep = _command(commands.Sleep)
    tab_and_enter = _command(commands.TabAndEnter)

    async def _post(
        self,
        path: str,
        body: dict[str, object],
        read: Reader[T],
        command: Command | None,
        within: float | None,
    ) -> T:
        seconds = self._caller.deadline_seconds if within is None else within
        if isinstance(command, commands.Sleep):
            seconds += command.duration
        body["deadline_seconds"] = _deadline_seconds(seconds)
        return await self._caller.ask(
            "POST", path, read, body=msgspec.json.encode(body), within=seconds
        )


def _deadline_seconds(seconds: float) -> float:
    """The deadline that is sent, within the bounds that the server accepts."""
    return min(max(seconds, 0.001), LONGEST_DEADLINE)
