"""One browser of a pool: its slots, its state, and the check of its health.

A browser hangs when its main process neither answers nor sends anything else; one that still sends
messages is only busy, and to end it would make a busy machine busier. It also hangs when the main
process answers but pages are no longer drawn, because another of its processes is stuck. Sessions
notice that: they count observations that failed even on an empty page
(`Targets.failed_observations`).
"""

import asyncio
from typing import Any

import msgspec

from webgym.browser.chromium.connection import ConnectionClosedError
from webgym.browser.chromium.process import Chromium
from webgym.browser.pool.decisions import BrowserLoad, BrowserState, EndReason
from webgym.browser.settings import BrowserSettings

_PINGS_TO_HANG = 2
"""One ping may be late because this process itself was slow; two in a row may not."""

_FAILED_OBSERVATIONS_TO_HANG = 2
_FAILED_OPENS = 3


class BrowserEnd(msgspec.Struct, frozen=True):
    """Why a browser ends. `detail` is the sentence that its sessions report."""

    reason: EndReason
    detail: str


class PooledBrowser:
    """A browser of the pool. `slots` counts the used slots, including half-open sessions.

    `pages_ended` are page processes that were killed and may take a moment to exit. `ended` is done
    when the end of the browser is decided; its process may take a moment longer.
    """

    def __init__(self, number: int, chromium: Chromium) -> None:
        self.number = number
        self.chromium = chromium
        self.joined_at = asyncio.get_running_loop().time()
        self.slots = 0
        self.opened = 0
        self.memory = 0
        self.pages_ended: set[int] = set()
        self.failing = False
        self._failed_opens = 0
        self.state = BrowserState.SERVING
        self.reason: EndReason | None = None
        self.draining_since = 0.0
        self.ended: asyncio.Future[BrowserEnd] = asyncio.get_running_loop().create_future()

    @property
    def is_up(self) -> bool:
        """False as soon as the pipe is closed, which may be before the cause is known."""
        return not self.ended.done() and not self.chromium.connection.closed.done()

    def acquire_slot(self) -> None:
        self.slots += 1
        self.opened += 1

    def opened_session(self) -> None:
        self._failed_opens = 0

    def failed_to_open(self) -> None:
        """One failure may come from a short deadline; several in a row come from the browser."""
        self._failed_opens += 1
        self.failing = self.failing or self._failed_opens >= _FAILED_OPENS

    def load(self, now: float) -> BrowserLoad:
        draining = self.state is BrowserState.DRAINING
        return BrowserLoad(
            number=self.number,
            state=self.state,
            sessions=self.slots,
            opened=self.opened,
            age=now - self.joined_at,
            memory=self.memory,
            failing=self.failing,
            draining_for=now - self.draining_since if draining else 0.0,
        )

    def retire(self, reason: EndReason) -> None:
        self.state = BrowserState.RETIRING
        self.reason = reason

    def drain(self, now: float) -> None:
        self.state = BrowserState.DRAINING
        self.draining_since = now

    def end(self, end: BrowserEnd) -> None:
        if not self.ended.done():
            self.ended.set_result(end)

    async def watch(self, settings: BrowserSettings) -> BrowserEnd:
        """Returns when the browser must end: it died, it hangs, or the pool decided so."""
        closed, missed = self.chromium.connection.closed, 0
        either: set[asyncio.Future[Any]] = {closed, self.ended}
        while True:
            pause = 0.0 if missed else settings.ping_interval
            await asyncio.wait(either, timeout=pause, return_when=asyncio.FIRST_COMPLETED)
            if self.ended.done():
                return self.ended.result()
            if closed.done() or self.chromium.has_ended():
                return await self._crash()
            if self.chromium.targets.failed_observations >= _FAILED_OBSERVATIONS_TO_HANG:
                detail = f"browser {self.chromium.pid} no longer draws pages"
                return BrowserEnd(EndReason.HUNG, detail)
            lives = await self._lives(settings.ping_timeout / _PINGS_TO_HANG)
            missed = 0 if lives else missed + 1
            if missed == _PINGS_TO_HANG and not closed.done():
                silence = f"did not answer for {settings.ping_timeout:g} s"
                return BrowserEnd(EndReason.HUNG, f"browser {self.chromium.pid} {silence}")

    async def _lives(self, seconds: float) -> bool:
        """Whether it answers in time, or at least sends other messages meanwhile."""
        received = self.chromium.connection.received
        try:
            await self.chromium.ping(asyncio.get_running_loop().time() + seconds)
        except TimeoutError:
            return self.chromium.connection.received > received
        except ConnectionClosedError:
            pass
        return True

    async def _crash(self) -> BrowserEnd:
        how = await self.chromium.how_it_ended()
        return BrowserEnd(EndReason.CRASHED, f"browser {self.chromium.pid} {how}")
