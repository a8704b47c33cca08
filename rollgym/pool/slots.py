"""How busy the slots of a pool are.

A slot that stays free because of back-pressure is not the pool's to fill. That time is counted as
held, and the busy share is that of the rest.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from rollgym.engine import Worker, WorkItem
from rollgym.records import Outcome


class Slots:
    """Measures the time of attempts against the time of slots. It wraps the worker."""

    def __init__(
        self, worker: Worker, limit: Callable[[], int | None], hold: Callable[[], str | None]
    ) -> None:
        """`limit` gives the number of slots, None where it adapts. `hold` is why none is filled."""
        self.running = 0
        self._worker = worker
        self._limit = limit
        self._hold = hold
        self._since: float | None = None
        self._busy = self._idle = self._held = 0.0

    async def __call__(self, item: WorkItem, attempt: int, deadline: float) -> Outcome:
        self.observe()
        self.running += 1
        try:
            return await self._worker(item, attempt, deadline)
        finally:
            self.observe()
            self.running -= 1

    def observe(self) -> None:
        """Count the time since the last change; to be called before each one."""
        now = asyncio.get_running_loop().time()
        since, self._since = self._since, now
        if since is None:
            return
        self._busy += self.running * (now - since)
        limit = self._limit()
        if limit is not None:
            free = max(0, limit - self.running) * (now - since)
            if self._hold():
                self._held += free
            else:
                self._idle += free

    def numbers(self) -> dict[str, Any]:
        """The present state and the shares; `busy` leaves out what back-pressure held."""
        self.observe()
        total = self._busy + self._idle + self._held
        asked = self._busy + self._idle
        limit = self._limit()
        known = limit is not None
        return {
            "limit": limit,
            "running": self.running,
            "busy": round(self._busy / asked, 4) if known and asked else None,
            "held": round(self._held / total, 4) if known and total else None,
        }
