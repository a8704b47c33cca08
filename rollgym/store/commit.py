"""Group commit: many records share one sync, and none waits longer than a bound.

`append` writes at once; `run`, a background service, syncs what has gathered every `max_delay`
seconds and then acknowledges it. Where `max_unsynced` records have gathered before that,
`keep_pace` syncs them and waits, so the records at risk are bounded. With `EVERY_RECORD` it does so
after each.
"""

import asyncio
from collections.abc import Callable

import msgspec

from rollgym.store.journal import Journal


class SyncPolicy(msgspec.Struct, frozen=True):
    """How long and how many records may wait for their sync."""

    max_delay: float = 0.1
    max_unsynced: int = 4096

    def __post_init__(self) -> None:
        if self.max_delay < 0 or self.max_unsynced < 1:
            raise ValueError("max_delay must be at least 0 and max_unsynced at least 1")


EVERY_RECORD = SyncPolicy(max_delay=0.0, max_unsynced=1)


class GroupCommit:
    """Syncs a journal in groups and says how far it has come."""

    def __init__(self, journal: Journal, policy: SyncPolicy) -> None:
        self._journal = journal
        self._policy = policy
        self._durable = 0
        self._acknowledge: Callable[[int], None] = lambda _count: None
        self._dirty = asyncio.Event()
        self._one_at_a_time = asyncio.Lock()

    def on_durable(self, acknowledge: Callable[[int], None]) -> None:
        """Call back after each sync with how many more records will now last."""
        self._acknowledge = acknowledge

    def append(self, line: bytes) -> int:
        """Write a line; returns its offset. Raises StorageError."""
        offset = self._journal.append(line)
        self._dirty.set()
        return offset

    async def keep_pace(self) -> None:
        """To be awaited after every append: waits for a sync where too much is unsynced."""
        if self._journal.appended - self._durable >= self._policy.max_unsynced:
            await self.flush()

    async def run(self) -> None:
        """Sync for as long as this is not cancelled. Raises StorageError."""
        while True:
            await self._dirty.wait()
            await asyncio.sleep(self._policy.max_delay)
            await self.flush()

    async def flush(self) -> None:
        """Sync and acknowledge all that has been appended. Raises StorageError."""
        async with self._one_at_a_time:
            if self._durable == self._journal.appended:
                return
            self._dirty.clear()
            durable = await self._journal.sync()
            count, self._durable = durable - self._durable, durable
            self._acknowledge(count)
