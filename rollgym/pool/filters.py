"""Filters: which finished groups are delivered, decided for one group after another.

What a filter drops is not lost: it stays in the journal, and it is counted with its numbers, so
that one can see what the trainer does not get. A function of the user that raises an error, or does
not return in time, drops nothing.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import cast

from rollgym.plugins import find_named, run_in_daemon_thread
from rollgym.pool.groups import DeliveredGroup, PoolGroup
from rollgym.pool.leasing import GroupReader
from rollgym.pool.settings import GroupFilter
from rollgym.pool.state import PoolState

FILTER_TIMEOUT = 60.0
NO_REWARDS = "no_rewards"
SHORT = "short"
EQUAL_REWARDS = "equal_rewards"
OWN_FILTER = "filter"

log = logging.getLogger(__name__)


class Filters:
    """The filters of one pool. `errors` counts the failures of the user's function."""

    def __init__(
        self, *, drop_short: bool, drop_equal_rewards: bool, own: GroupFilter | None = None
    ) -> None:
        self.errors = 0
        self._drop_short = drop_short
        self._drop_equal_rewards = drop_equal_rewards
        self._own = own

    async def reason_to_drop(
        self, group: PoolGroup, read: Callable[[], Awaitable[DeliveredGroup]]
    ) -> str | None:
        """Why the group is not delivered; None where it is. `read` gives it with its rows.

        Raises what `read` raises.
        """
        if not group.completed:
            return NO_REWARDS
        if self._drop_short and group.short:
            return SHORT
        if self._drop_equal_rewards and group.has_equal_rewards:
            return EQUAL_REWARDS
        if self._own is None:
            return None
        delivered = await read()
        try:
            deciding = run_in_daemon_thread(partial(self._own, delivered), "rollgym-filter")
            keeps = await asyncio.wait_for(deciding, FILTER_TIMEOUT)
        except Exception:
            self.errors += 1
            log.exception("the filter could not judge group %s, which is delivered", group.id)
            return None
        return None if keeps else OWN_FILTER


class Filtering:
    """The finished groups that wait for the filters."""

    def __init__(
        self,
        state: PoolState,
        filters: Filters,
        reader: GroupReader,
        *,
        is_refilled: Callable[[PoolGroup], bool],
        decided: Callable[[], None],
    ) -> None:
        """A group that `is_refilled` is put here again. `decided` is called after each one."""
        self._state = state
        self._filters = filters
        self._reader = reader
        self._is_refilled = is_refilled
        self._decided = decided
        self._waiting: asyncio.Queue[PoolGroup] = asyncio.Queue()

    def put(self, group: PoolGroup) -> None:
        """Every rollout of this group has an outcome."""
        self._waiting.put_nowait(group)

    async def run(self) -> None:
        """Filter groups until cancelled. Raises StoreError."""
        while True:
            group = await self._waiting.get()
            if not self._state.is_filtered(group.number) and not self._is_refilled(group):
                await self._filter(group)
                self._decided()
            self._waiting.task_done()

    async def finish(self) -> None:
        """Wait until no group waits for the filters."""
        await self._waiting.join()

    async def _filter(self, group: PoolGroup) -> None:
        async def read() -> DeliveredGroup:
            return (await self._reader.read([group]))[0]

        reason = await self._filters.reason_to_drop(group, read)
        if reason is None:
            self._state.add_ready(group)
        else:
            self._state.drop(group, reason)


def load_filter(name: str) -> GroupFilter:
    """The function that `module:function` names. Raises ValueError with what it must be."""
    if not all(name.partition(":")):
        raise ValueError("it must name a function as module:function")
    try:
        found = find_named(name)
    except ImportError as error:
        raise ValueError(f"it must name a module that can be imported ({error})") from error
    except AttributeError:
        found = None
    if not callable(found):
        raise ValueError(f"it must name a function of {name.partition(':')[0]}")  # noqa: TRY004
    return cast("GroupFilter", found)
