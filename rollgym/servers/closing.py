"""The end of sessions: letting go of what their states hold.

It is an author's code that does so, and nobody waits for its result. So it is bounded, it runs to
its end also when the caller who asked for it leaves, and what it raises is logged: the rollout has
its verdict or its failure already, and neither depends on it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from rollgym.servers.context import after_the_deadline, current_rollout
from rollgym.servers.limit import Limit

CLOSE_TIMEOUT = 30.0
S = TypeVar("S")
_LOGGER = logging.getLogger("rollgym.servers")


class Closing(Generic[S]):
    """Closes the sessions of one server; `close` is None where there is nothing to let go of."""

    def __init__(self, server: str, close: Callable[[S], Awaitable[None]] | None) -> None:
        self._server = server
        self._close = close
        self._tasks: set[asyncio.Task[None]] = set()

    async def let_go(self, states: list[S]) -> None:
        """Returns when all are closed. Raises nothing but cancellation, which stops no closing."""
        close = self._close
        if close is None:
            return
        tasks = [asyncio.create_task(self._let_go(state, close)) for state in states]
        self._tasks.update(tasks)
        for task in tasks:
            task.add_done_callback(self._tasks.discard)
        await asyncio.shield(asyncio.gather(*tasks, return_exceptions=True))

    async def finish(self) -> None:
        """Wait for those whose callers left."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _let_go(self, state: S, close: Callable[[S], Awaitable[None]]) -> None:
        try:
            with after_the_deadline(), Limit(CLOSE_TIMEOUT):
                await close(state)
        except Exception:
            about = {"server": self._server, "rollout": current_rollout()}
            _LOGGER.exception("a session of %s could not be closed", self._server, extra=about)
