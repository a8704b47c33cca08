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
        """Have it given back, by and by: no episode waits for that, or loses its time by it."""
        if self._held.pop(id(session), None) is not None:
            releasing = asyncio.create_task(self._release(session), name="give a session back")
            self._releases.add(releasing)
            releasing.add_done_callback(self._releases.discard)

    async def release_all(self, *, abandoned: bool) -> None:
        """Return when all are given back; `abandoned`: also what episodes still hold."""
        for session in list(self._held.values()) if abandoned else ():
            await self.release(session)
        await asyncio.gather(*self._releases)

    async def _release(self, session: Any) -> None:
        async with self._giving:
            await self._browsers.release(session)
