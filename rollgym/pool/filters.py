"""Filters: which finished groups are delivered.

What a filter drops is not lost: it stays in the journal, and it is counted with its numbers, so
that one can see what the trainer does not get. A function of the user that raises an error, or does
not return in time, drops nothing.
"""

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from importlib import import_module
from typing import Any, cast

from rollgym.pool.groups import DeliveredGroup, PoolGroup

FILTER_TIMEOUT = 60.0
NO_REWARDS = "no_rewards"
SHORT = "short"
EQUAL_REWARDS = "equal_rewards"
OWN_FILTER = "filter"

GroupFilter = Callable[[DeliveredGroup], bool]
"""Whether a group is to be delivered. Called in a thread."""
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
            judging = asyncio.wrap_future(_in_own_thread(self._own, delivered))
            keeps = await asyncio.wait_for(judging, FILTER_TIMEOUT)
        except Exception:
            self.errors += 1
            log.exception("the filter could not judge group %s, which is delivered", group.id)
            return None
        return None if keeps else OWN_FILTER


def _in_own_thread(judge: GroupFilter, group: DeliveredGroup) -> "Future[bool]":
    """Start to judge a group in a thread that holds up nothing else, nor the end of the process.

    A function that never returns would use up the threads that everything else shares.
    """
    judged: Future[bool] = Future()
    judged.set_running_or_notify_cancel()

    def work() -> None:
        try:
            keeps = judge(group)
        except Exception as error:  # noqa: BLE001 - the caller gets it
            judged.set_exception(error)
        else:
            judged.set_result(keeps)

    threading.Thread(target=work, name="rollgym-filter", daemon=True).start()
    return judged


def load_filter(name: str) -> GroupFilter:
    """The function that `module:function` names. Raises ValueError with what it must be."""
    module_name, _, function_name = name.partition(":")
    if not module_name or not function_name:
        raise ValueError("it must name a function as module:function")
    try:
        found: Any = getattr(import_module(module_name), function_name, None)
    except ImportError as error:
        raise ValueError(f"it must name a module that can be imported ({error})") from error
    if not callable(found):
        raise ValueError(f"it must name a function of {module_name}")  # noqa: TRY004
    return cast("GroupFilter", found)
