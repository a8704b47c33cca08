"""Scenarios with a pool of real browsers; its sessions can do as much as the tests need."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, cast

import msgspec

from rollgym.servers.limit import Limit
from webgym.browser.chromium.connection import ConnectionClosedError
from webgym.browser.chromium.executable import Browser, find_browser
from webgym.browser.chromium.targets import TargetInfo, Targets
from webgym.browser.contract.profile import SessionProfile, UpstreamProxy
from webgym.browser.guard.guard import NetworkGuard
from webgym.browser.pool.browser import PooledBrowser
from webgym.browser.pool.pool import BrowserPool
from webgym.browser.session import ChromiumSession
from webgym.browser.settings import BrowserSettings

PATIENCE = 60.0


def soon(seconds: float = PATIENCE) -> float:
    return asyncio.get_running_loop().time() + seconds


class StandInChannel:
    """Leads nowhere. What matters is that each is closed."""

    def __init__(self, guard: "StandInGuard") -> None:
        self._guard = guard

    async def close(self) -> None:
        self._guard.open_channels.discard(self)


class StandInGuard:
    def __init__(self) -> None:
        self.open_channels: set[StandInChannel] = set()
        self.opened = 0

    async def open_channel(self, _: UpstreamProxy | None = None) -> StandInChannel:
        channel = StandInChannel(self)
        self.open_channels.add(channel)
        self.opened += 1
        return channel


class StandInSession:
    """One context with one page, which can run scripts and crash."""

    def __init__(self, targets: Targets, channel: StandInChannel) -> None:
        self.lost: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.crashed = asyncio.Event()
        self.may_close = asyncio.Event()
        self.may_close.set()
        self._targets = targets
        self._channel = channel
        self._context: str | None = None
        self._attached: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    @classmethod
    async def open(
        cls, targets: Targets, channel: StandInChannel, deadline: float
    ) -> "StandInSession":
        session = cls(targets, channel)
        try:
            await session._open(deadline)
        except BaseException:
            await session.close()
            raise
        return session

    @property
    def targets(self) -> Targets:
        return self._targets

    async def evaluate(self, script: str, deadline: float | None = None) -> object:
        """The value of the script, on the page."""
        params = {"expression": script, "returnByValue": True}
        answer = await self._targets.connection.call(
            "Runtime.evaluate", params, session=await self._attached, deadline=deadline or soon()
        )
        return msgspec.json.decode(answer)["result"].get("value")

    def begin(self, script: str) -> None:
        """Let the page do this, without waiting."""
        params = {"expression": script}
        session = self._attached.result()
        self._targets.connection.send("Runtime.evaluate", params, session=session)

    def lose(self, reason: str) -> None:
        if not self.lost.done():
            self.lost.set_result(reason)

    async def close(self) -> None:
        self.lose("closed")
        await self.may_close.wait()
        context, self._context = self._context, None
        try:
            if context is not None:
                await self._targets.dispose_context(context, soon(5))
        except ConnectionClosedError:
            pass
        finally:
            await self._channel.close()

    def tab_attached(self, session: str, target: TargetInfo) -> None:
        self._targets.connection.listen(session, self._hear)
        self._targets.connection.send("Inspector.enable", session=session)
        self._targets.connection.send("Runtime.runIfWaitingForDebugger", session=session)
        if not self._attached.done():
            self._attached.set_result(session)

    def identity(self, usual: Mapping[str, object] | None) -> Mapping[str, object] | None:
        return usual

    def tab_detached(self, session: str) -> None:
        pass

    download_folder = None

    def download_progressed(self, guid: str, received: float, state: str) -> None: ...

    async def _open(self, deadline: float) -> None:
        self._context = await self._targets.create_context(None, self, deadline)
        target = {"url": "about:blank", "browserContextId": self._context}
        await self._targets.connection.call("Target.createTarget", target, deadline=deadline)
        with Limit(deadline - asyncio.get_running_loop().time()):
            await self._attached

    def _hear(self, method: str, _: msgspec.Raw) -> None:
        if method == "Inspector.targetCrashed":
            self.crashed.set()


class _Messages(logging.Handler):
    """Keeps what a pool logs."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


class Pools:
    """A pool for a test, with stand-ins for sessions and channels, and what it logs."""

    def __init__(self, browser: Browser, settings: BrowserSettings) -> None:
        self.guard = StandInGuard()
        self.log = _Messages()
        self.opener: Callable[[Targets, StandInChannel, float], Awaitable[StandInSession]] = (
            StandInSession.open
        )
        self.pool = BrowserPool(
            browser, cast("NetworkGuard", self.guard), settings, cast("Any", self._open_session)
        )

    async def open(self, count: int = 1) -> list[StandInSession]:
        return list(await asyncio.gather(*(self.open_one(soon()) for _ in range(count))))

    async def open_one(self, deadline: float) -> StandInSession:
        return cast("StandInSession", await self.pool.open_session(deadline))

    async def close(self, *sessions: StandInSession) -> None:
        closing = (self.pool.close_session(cast("ChromiumSession", each)) for each in sessions)
        await asyncio.gather(*closing)

    @property
    def browsers(self) -> list[PooledBrowser]:
        return list(self.pool._supervisor._browsers.values())

    @property
    def waiting(self) -> int:
        return len(self.pool._supervisor._queue)

    def pids(self) -> list[int]:
        return [browser.chromium.pid for browser in self.browsers]

    def sessions_by_browser(self) -> list[int]:
        return [browser.slots for browser in self.browsers]

    def logged(self, text: str) -> list[str]:
        """The messages that contain this text."""
        return [message for message in self.log.texts if text in message]

    async def _open_session(
        self, targets: Targets, channel: StandInChannel, deadline: float, _: SessionProfile
    ) -> StandInSession:
        return await self.opener(targets, channel, deadline)


@asynccontextmanager
async def pooled(program: Browser | None = None, /, **settings: float) -> AsyncIterator[Pools]:
    options = msgspec.convert({"capacity": 16, **settings}, BrowserSettings)
    async with asyncio.timeout(3 * PATIENCE):
        pools = Pools(program or find_browser(), options)
        logger = logging.getLogger("webgym.browser.pool")
        logger.addHandler(pools.log)
        logger.setLevel(logging.INFO)
        try:
            async with pools.pool:
                yield pools
        finally:
            logger.removeHandler(pools.log)
            logger.setLevel(logging.NOTSET)
    assert pools.guard.open_channels == set()


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await scenario()

    asyncio.run(main())
