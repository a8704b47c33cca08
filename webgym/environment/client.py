"""The browser server's client: sessions to act in, over pooled connections.

*Sessions.* `async with client.session() as session:` takes a session, waiting for one where all are
taken, and gives it back however the block ends, also by cancellation. Giving it back is bounded,
and nobody's result depends on it: a session that could not be given back expires.

*Time.* Every request has a deadline: the client's `deadline_seconds`, or `within`, and never later
than that of the rollout it is made for (`rollgym.servers.context`).

*Errors* are those of `webgym.browser.contract.errors`. Where there is no answer, requests that
change nothing are repeated a few times. A command is not, because nobody knows whether it was
carried out: it raises ServerUnreachableError.

*Notebooks.* `SyncBrowserClient` has the same methods without `await`. Its event loop runs in a
thread of its own, so it also works where another loop is running, as in Jupyter.
"""

import asyncio
import logging
import os
import random
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import asynccontextmanager, contextmanager
from functools import wraps
from secrets import token_hex
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

import msgspec

from rollgym.servers.context import after_the_deadline, seconds_left
from webgym.browser.caller import Caller
from webgym.browser.contract import commands
from webgym.browser.contract.answers import (
    ImageFormat,
    Lease,
    NodeInfo,
    Observe,
    Picture,
    StepAnswer,
)
from webgym.browser.contract.commands import Command, InteractionMode
from webgym.browser.contract.errors import (
    NoSessionError,
    ServerUnreachableError,
    SessionLostError,
    StepDeadlineError,
)
from webgym.browser.exchange.request import LONGEST_DEADLINE, LONGEST_WAIT
from webgym.browser.reading import SLACK, Reader, picture_reader, reader
from webgym.environment.actions import Viewport

DEFAULT_URL = "http://localhost:7000"
TOKEN_VARIABLE = "CPU_CLUSTER_TOKEN"  # noqa: S105 - its name, not the token
RELEASE_SECONDS = 10.0
RELEASE_PAUSE = 1.0
START_SECONDS = 10.0
GET_ATTEMPTS = 200
SHORTEST_PAUSE = 0.1
LONGEST_PAUSE = 5.0

P = ParamSpec("P")
T = TypeVar("T")
_LOGGER = logging.getLogger("webgym.client")


class ServerInfo(msgspec.Struct, frozen=True):
    """The server's nodes, and how many requests wait for a session."""

    nodes: tuple[NodeInfo, ...]
    waiting: int = 0

    @property
    def available(self) -> int:
        return sum(node.available for node in self.nodes if node.healthy)


_LEASE = reader(Lease)
_INFO = reader(ServerInfo)
_STEP = reader(StepAnswer)
_RESULT = reader(dict[str, object])
_VIEWPORT = reader(Viewport)
_ANYTHING = reader(object)


class BrowserClient:
    """The browser server at `url`. Without a token that of CPU_CLUSTER_TOKEN is sent, if any.

    `connections` bounds the requests under way; further ones wait, inside their deadlines.
    """

    def __init__(
        self,
        url: str = DEFAULT_URL,
        token: str | None = None,
        deadline_seconds: float = 60.0,
        connections: int = 512,
    ) -> None:
        headers = {"x-client-id": token_hex(8)}
        token = (token or os.environ.get(TOKEN_VARIABLE, "")).strip()
        if token:
            headers["x-api-key"] = token
        self.caller = Caller(url, headers, deadline_seconds, connections)
        self._releases: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> "BrowserClient":
        self.caller.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Wait for the sessions that are being given back, then close the connections."""
        await asyncio.gather(*self._releases, return_exceptions=True)
        await self.caller.close()

    async def get(self, lifetime_mins: float = 60, wait_seconds: float = 60) -> "BrowserSession":
        """Take a session, waiting for one for at most `wait_seconds`. Give it back with `reset`.

        Raises NoSessionError where none was free in time, ServerUnreachableError,
        UnauthorizedError, BadRequestError, StepDeadlineError.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds_left(wait_seconds)
        patience = SHORTEST_PAUSE
        for attempt in range(GET_ATTEMPTS):
            left = max(0.0, deadline - loop.time())
            wait = min(left, LONGEST_WAIT)
            query = {"lifetime_mins": f"{lifetime_mins:g}", "wait_seconds": f"{wait:.3f}"}
            try:
                lease = await self.caller.ask("POST", "/get", _LEASE, query, within=left + SLACK)
            except (NoSessionError, ServerUnreachableError) as error:
                asked_for, patience = error.retry_after, min(LONGEST_PAUSE, 2 * patience)
                pause = patience if asked_for is None else max(SHORTEST_PAUSE, asked_for)
                if attempt == GET_ATTEMPTS - 1 or loop.time() + pause >= deadline:
                    raise
            else:
                return BrowserSession(self.caller, lease)
            # Not all who were sent away come back at the same moment.
            spread = pause * random.uniform(1, 1.25)  # noqa: S311 - it decides no result
            await asyncio.sleep(min(spread, deadline - loop.time()))
        raise AssertionError("the last attempt returns or raises")

    @asynccontextmanager
    async def session(
        self, lifetime_mins: float = 60, wait_seconds: float = 60
    ) -> "AsyncIterator[BrowserSession]":
        """A session for the length of the block. Raises as `get`."""
        session = await self.get(lifetime_mins, wait_seconds)
        try:
            yield session
        finally:
            await self.release(session)

    async def release(self, session: "BrowserSession") -> None:
        """Give a session back. Raises nothing but cancellation, which does not stop it."""
        task = asyncio.create_task(self._release(session), name="give a browser session back")
        self._releases.add(task)
        task.add_done_callback(self._releases.discard)
        await asyncio.shield(task)

    async def info(self) -> ServerInfo:
        """The nodes as the server sees them. Raises ServerUnreachableError, UnauthorizedError."""
        return await self.caller.ask("GET", "/info", _INFO, repeatable=True)

    async def _release(self, session: "BrowserSession") -> None:
        """A server that is being started again is waited for: else nobody could use the session."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + RELEASE_SECONDS
        try:
            with after_the_deadline():
                while True:
                    try:
                        return await session.reset(within=deadline - loop.time())
                    except ServerUnreachableError:
                        if loop.time() + RELEASE_PAUSE >= deadline:
                            raise
                    await asyncio.sleep(RELEASE_PAUSE)
        except Exception as error:  # noqa: BLE001 - the session expires, and its work is done
            _LOGGER.warning("session %s was not given back: %s", session.lease.instance_id, error)


def _command(
    kind: Callable[P, Command],
) -> "Callable[Concatenate[BrowserSession, P], Coroutine[Any, Any, None]]":
    """The method that carries out one command."""

    async def method(self: "BrowserSession", /, *args: P.args, **kwargs: P.kwargs) -> None:
        await self.execute(kind(*args, **kwargs))

    method.__doc__ = kind.__doc__
    return method


class BrowserSession:
    """One session of the browser server, until it is given back.

    All methods raise SessionLostError when it is gone, ServerUnreachableError, StepDeadlineError.
    """

    def __init__(self, caller: Caller, lease: Lease) -> None:
        self.lease = lease
        self._caller = caller
        self._names = {"instance_id": lease.instance_id, "node": lease.node}
        self._query = {**self._names, "deadline_seconds": f"{_due(caller.deadline_seconds):g}"}

    async def step(
        self,
        command: Command | None = None,
        observe: Observe | None = None,
        *,
        within: float | None = None,
    ) -> StepAnswer:
        """Carry out a command, let the page settle, and observe, in one round trip.

        What the page did not let happen is in the answer's `error`.
        """
        body: dict[str, object] = {**self._names, "observe": observe or Observe()}
        if command is not None:
            body[command.command] = command
        return await self._post("/step", body, _STEP, command, within)

    async def execute(self, command: Command, *, within: float | None = None) -> dict[str, object]:
        """Carry out a command. Raises CommandError where the page did not let it happen."""
        body: dict[str, object] = {**self._names, command.command: command}
        return await self._post("/execute", body, _RESULT, command, within)

    async def screenshot(
        self,
        mode: InteractionMode = "coordinates",
        format: ImageFormat = "png",  # noqa: A002
    ) -> Picture:
        """What the page looks like."""
        query = self._query | {"interaction_mode": mode, "format": format}
        read = picture_reader(f"image/{format}")
        return await self._caller.ask("GET", "/screenshot", read, query, repeatable=True)

    async def probe(self) -> bool:
        """Whether the session is still there."""
        try:
            await self._caller.ask("GET", "/probe", _ANYTHING, self._query, repeatable=True)
        except SessionLostError:
            return False
        return True

    async def metadata(self) -> Viewport:
        """The size of its viewport."""
        return await self._caller.ask("GET", "/metadata", _VIEWPORT, self._query, repeatable=True)

    async def reset(self, *, within: float | None = None) -> None:
        """Give the session back; nothing happens where it is gone already."""
        try:
            await self._caller.ask(
                "POST", "/reset", _ANYTHING, self._query, within=within, repeatable=True
            )
        except SessionLostError:
            return

    async def get_webpage_text(self, n_lines: int = 100) -> str:
        """The page as text, at most so many lines of it."""
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
        body["deadline_seconds"] = _due(seconds)
        return await self._caller.ask(
            "POST", path, read, body=msgspec.json.encode(body), within=seconds
        )


def _due(seconds: float) -> float:
    """What the server is asked for, as far as it goes along."""
    return min(max(seconds, 0.001), LONGEST_DEADLINE)


def _blocking(
    method: Callable[Concatenate[BrowserSession, P], Coroutine[Any, Any, T]],
) -> "Callable[Concatenate[SyncBrowserSession, P], T]":
    """The same method for callers that wait."""

    @wraps(method)
    def call(self: "SyncBrowserSession", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.client.wait_for(
            method(self.session, *args, **kwargs),
            msgspec.convert(kwargs.get("within"), float | None),
        )

    return call


class SyncBrowserClient:
    """`BrowserClient` for notebooks and small programs. Close it, or use it in a `with` block.

    Sessions that were not given back are when it is closed.
    """

    def __init__(
        self,
        url: str = DEFAULT_URL,
        token: str | None = None,
        deadline_seconds: float = 60.0,
    ) -> None:
        self._client = BrowserClient(url, token, deadline_seconds)
        self._sessions: set[BrowserSession] = set()
        ready: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._live(ready)), name="browser client", daemon=True
        )
        self._thread.start()
        self._loop, self._stop = ready.result(START_SECONDS)

    def __enter__(self) -> "SyncBrowserClient":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give all sessions back and end the thread. Closing it again does nothing."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join(RELEASE_SECONDS + 2 * SLACK)

    def get(self, lifetime_mins: float = 60, wait_seconds: float = 60) -> "SyncBrowserSession":
        """As `BrowserClient.get`."""
        taking = self._client.get(lifetime_mins, wait_seconds)
        session = self.wait_for(taking, wait_seconds + self._client.caller.deadline_seconds)
        self._sessions.add(session)
        return SyncBrowserSession(self, session)

    @contextmanager
    def session(
        self, lifetime_mins: float = 60, wait_seconds: float = 60
    ) -> "Iterator[SyncBrowserSession]":
        """As `BrowserClient.session`."""
        session = self.get(lifetime_mins, wait_seconds)
        try:
            yield session
        finally:
            self.forget(session.session)
            if self._thread.is_alive():
                self.wait_for(self._client.release(session.session))

    def info(self) -> ServerInfo:
        return self.wait_for(self._client.info())

    def wait_for(self, call: Coroutine[Any, Any, T], within: float | None = None) -> T:
        """The result of a call of the asynchronous client. Ctrl-C ends it."""
        if not self._thread.is_alive():
            call.close()
            raise RuntimeError("the client is closed")
        seconds = self._client.caller.deadline_seconds if within is None else within
        future = asyncio.run_coroutine_threadsafe(call, self._loop)
        try:
            return future.result(seconds + commands.LONGEST_SLEEP + 2 * SLACK)
        except CancelledError as error:
            raise RuntimeError("the client was closed meanwhile") from error
        except TimeoutError as error:
            if future.done():
                raise
            raise StepDeadlineError("the client's thread does not answer") from error
        finally:
            future.cancel()

    def forget(self, session: BrowserSession) -> None:
        self._sessions.discard(session)

    async def _live(self, ready: "Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]]") -> None:
        async with self._client:
            stop = asyncio.Event()
            ready.set_result((asyncio.get_running_loop(), stop))
            await stop.wait()
            await asyncio.gather(*map(self._client.release, self._sessions))


class SyncBrowserSession:
    """`BrowserSession` for callers that wait. A notebook shows it as its screenshot."""

    def __init__(self, client: SyncBrowserClient, session: BrowserSession) -> None:
        self.client = client
        self.session = session

    @property
    def lease(self) -> Lease:
        return self.session.lease

    def reset(self) -> None:
        """Give the session back."""
        self.client.wait_for(self.session.reset())
        self.client.forget(self.session)

    def show(self, mode: InteractionMode = "coordinates") -> "Shown":
        """A picture of the page that a notebook shows."""
        return Shown(self.screenshot(mode).data)

    def _repr_png_(self) -> bytes:
        return self.screenshot().data

    step = _blocking(BrowserSession.step)
    execute = _blocking(BrowserSession.execute)
    screenshot = _blocking(BrowserSession.screenshot)
    probe = _blocking(BrowserSession.probe)
    metadata = _blocking(BrowserSession.metadata)
    get_webpage_text = _blocking(BrowserSession.get_webpage_text)
    get_page_metadata = _blocking(BrowserSession.get_page_metadata)
    get_interactive_rects = _blocking(BrowserSession.get_interactive_rects)
    get_accessibility_tree = _blocking(BrowserSession.get_accessibility_tree)
    get_screenshot_info = _blocking(BrowserSession.get_screenshot_info)
    visit_page = _blocking(BrowserSession.visit_page)
    back = _blocking(BrowserSession.back)
    click_coords = _blocking(BrowserSession.click_coords)
    click_id = _blocking(BrowserSession.click_id)
    fill_coords = _blocking(BrowserSession.fill_coords)
    fill_id = _blocking(BrowserSession.fill_id)
    select_option = _blocking(BrowserSession.select_option)
    hover_coords = _blocking(BrowserSession.hover_coords)
    hover_id = _blocking(BrowserSession.hover_id)
    hover_and_scroll_coords = _blocking(BrowserSession.hover_and_scroll_coords)
    scroll_id = _blocking(BrowserSession.scroll_id)
    page_down = _blocking(BrowserSession.page_down)
    page_up = _blocking(BrowserSession.page_up)
    keypress = _blocking(BrowserSession.keypress)
    sleep = _blocking(BrowserSession.sleep)
    tab_and_enter = _blocking(BrowserSession.tab_and_enter)


class Shown(NamedTuple):
    """A picture as notebooks show it."""

    png: bytes

    def _repr_png_(self) -> bytes:
        return self.png
