"""One browser of a pool: its places, its condition, and the watch over its health.

A browser hangs when its main process does not answer, and also when that one does but pages are no
longer drawn, since another of its processes is stuck. Sessions find that out: they say so where
even an empty page cannot be seen (`Targets.unseen`).
"""

import asyncio
from typing import Any

import msgspec

from webgym.browser.chromium.connection import ConnectionClosedError
from webgym.browser.chromium.process import Chromium
from webgym.browser.pool.decisions import Condition, Load, Reason
from webgym.browser.pool.info import BrowserInfo
from webgym.browser.pool.settings import PoolSettings

_PINGS_TO_HANG = 2
"""One may be late because this process itself was held up; two in a row may not."""

_LOOKS_TO_HANG = 2
_FAILED_OPENS = 3


class Ending(msgspec.Struct, frozen=True):
    """Why a browser ends, and in words for those whose sessions it had."""

    reason: Reason
    detail: str


class Member:
    """A browser of the pool. `places` counts the sessions that take up room, also half-open ones.

    `pages_ended` are processes of pages that were killed and may take a moment to go. `ended` is
    done when the end of the browser is decided; its process may take a moment longer.
    """

    def __init__(self, number: int, chromium: Chromium) -> None:
        self.number = number
        self.chromium = chromium
        self.joined_at = asyncio.get_running_loop().time()
        self.places = 0
        self.opened = 0
        self.memory = 0
        self.pages_ended: set[int] = set()
        self.failing = False
        self._failed_opens = 0
        self.condition = Condition.SERVING
        self.reason: Reason | None = None
        self.draining_since = 0.0
        self.ended: asyncio.Future[Ending] = asyncio.get_running_loop().create_future()

    @property
    def is_up(self) -> bool:
        """Its end may be seen a moment before it is known how it came about."""
        return not self.ended.done() and not self.chromium.connection.closed.done()

    def take_place(self) -> None:
        self.places += 1
        self.opened += 1

    def opened_session(self) -> None:
        self._failed_opens = 0

    def failed_to_open(self) -> None:
        """Once may be the fault of a short deadline; in a row it is that of the browser."""
        self._failed_opens += 1
        self.failing = self.failing or self._failed_opens >= _FAILED_OPENS

    def load(self, now: float) -> Load:
        draining = self.condition is Condition.DRAINING
        return Load(
            number=self.number,
            condition=self.condition,
            sessions=self.places,
            opened=self.opened,
            age=now - self.joined_at,
            memory=self.memory,
            failing=self.failing,
            draining_for=now - self.draining_since if draining else 0.0,
        )

    def info(self, now: float) -> BrowserInfo:
        return BrowserInfo(
            pid=self.chromium.pid,
            condition=self.condition,
            sessions=self.places,
            opened=self.opened,
            age=now - self.joined_at,
            memory=self.memory,
        )

    def retire(self, reason: Reason) -> None:
        self.condition = Condition.RETIRING
        self.reason = reason

    def drain(self, now: float) -> None:
        self.condition = Condition.DRAINING
        self.draining_since = now

    def end(self, ending: Ending) -> None:
        if not self.ended.done():
            self.ended.set_result(ending)

    async def watch(self, settings: PoolSettings) -> Ending:
        """Returns when the browser is to end: it died, it hangs, or the pool decided so."""
        closed, missed = self.chromium.connection.closed, 0
        either: set[asyncio.Future[Any]] = {closed, self.ended}
        while True:
            pause = 0.0 if missed else settings.ping_interval
            await asyncio.wait(either, timeout=pause, return_when=asyncio.FIRST_COMPLETED)
            if self.ended.done():
                return self.ended.result()
            if closed.done() or self.chromium.has_ended():
                return await self._crash()
            if self.chromium.targets.unseen >= _LOOKS_TO_HANG:
                return Ending(Reason.HUNG, f"browser {self.chromium.pid} draws no pages any more")
            missed = (
                0 if await self._answers(settings.ping_patience / _PINGS_TO_HANG) else missed + 1
            )
            if missed == _PINGS_TO_HANG and not closed.done():
                silence = f"did not answer for {settings.ping_patience:g} s"
                return Ending(Reason.HUNG, f"browser {self.chromium.pid} {silence}")

    async def _answers(self, patience: float) -> bool:
        try:
            await self.chromium.ping(asyncio.get_running_loop().time() + patience)
        except TimeoutError:
            return False
        except ConnectionClosedError:
            pass
        return True

    async def _crash(self) -> Ending:
        how = await self.chromium.how_it_ended()
        return Ending(Reason.CRASHED, f"browser {self.chromium.pid} {how}")
