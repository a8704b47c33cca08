"""The sessions that are out: so that none is left behind, whatever became of its episode."""

import asyncio
from typing import Any

from webgym.episode.browsers import Browsers, WebSession


class HeldSessions:
    """Browsers, of which it is known who has not been given back."""

    def __init__(self, browsers: Browsers) -> None:
        self._browsers = browsers
        self._held: dict[int, WebSession] = {}

    async def get(self, lifetime_mins: float = 60, wait_seconds: float = 60) -> WebSession:
        session = await self._browsers.get(lifetime_mins, wait_seconds)
        self._held[id(session)] = session
        return session

    async def release(self, session: Any) -> None:
        self._held.pop(id(session), None)
        await self._browsers.release(session)

    async def release_all(self) -> None:
        """Give back what episodes still hold that were abandoned."""
        await asyncio.gather(*map(self.release, list(self._held.values())))
