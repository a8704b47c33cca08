"""The sessions that are out: taken and given back a few at a time, and none is left behind."""

import asyncio
from typing import Any

from webgym.episode.browsers import Browsers, WebSession


class HeldSessions:
    """Browsers, of which it is known who has not been given back.

    At most `taking` are asked for, and `giving` given back, at a time.
    """

    def __init__(self, browsers: Browsers, taking: int, giving: int) -> None:
        self._browsers = browsers
        self._taking = asyncio.Semaphore(taking)
        self._giving = asyncio.Semaphore(giving)
        self._held: dict[int, WebSession] = {}
        self._releases: set[asyncio.Task[None]] = set()

    async def get(self, lifetime_mins: float = 60, wait_seconds: float = 60) -> WebSession:
        async with self._taking:
            session = await self._browsers.get(lifetime_mins, wait_seconds)
        self._held[id(session)] = session
        return session

    async def release(self, session: Any) -> None:
        """Give it back; who is cancelled meanwhile does not keep it from being given back."""
        if self._held.pop(id(session), None) is None:
            return
        releasing = asyncio.create_task(self._release(session), name="give a session back")
        self._releases.add(releasing)
        releasing.add_done_callback(self._releases.discard)
        await asyncio.shield(releasing)

    async def release_all(self) -> None:
        """Give back what episodes still hold that were abandoned."""
        await asyncio.gather(*map(self.release, list(self._held.values())), *self._releases)

    async def _release(self, session: Any) -> None:
        async with self._giving:
            await self._browsers.release(session)
