"""How busy the slots of a pool are.

A slot that stays free because of back-pressure is not the pool's to fill. That time is counted as
held, and the busy share is that of the rest.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from rollgym.engine import Adaptive, Control, Fixed, Worker, WorkItem
from rollgym.records import Outcome


class Slots:
    """Measures the time of attempts against the time of slots. It wraps the worker."""

    def __init__(
        self,
        worker: Worker,
        concurrency: Fixed | Adaptive,
        control: Control,
        hold: Callable[[], str | None],
    ) -> None:
        """`concurrency` is that of the policy. `hold` is why no slot is filled."""
        self.running = 0
        self._worker = worker
        self._concurrency = concurrency
        self._control = control
        self._hold = hold
        self._since: float | None = None
        self._peak = 0
        self._busy = self._idle = self._held = 0.0

    @property
    def limit(self) -> int | None:
        """The number of slots; None where it adapts."""
        chosen = self._concurrency
        return self._control.concurrency or (chosen.limit if isinstance(chosen, Fixed) else None)

    @property
    def most(self) -> int:
        """The most attempts that may run at the same time; where it adapts, that did so far."""
        chosen = self._concurrency
        initial = chosen.initial if isinstance(chosen, Adaptive) else chosen.limit
        return self.limit or max(initial, self._peak)

    async def __call__(self, item: WorkItem, attempt: int, deadline: float) -> Outcome:
        self.observe()
        self.running += 1
        self._peak = max(self._peak, self.running)
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
        limit = self.limit
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
        limit = self.limit
        known = limit is not None
        return {
            "limit": limit,
            "running": self.running,
            "busy": round(self._busy / asked, 4) if known and asked else None,
            "held": round(self._held / total, 4) if known and total else None,
        }
