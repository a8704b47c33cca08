"""Callers that wait for a place, first come, first served."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from rollgym.servers.limit import Limit

P = TypeVar("P")


class Waiting(Generic[P]):
    """A bounded queue. A place that was handed to a caller who has just left is given back."""

    def __init__(self, limit: int, give_back: Callable[[P], None]) -> None:
        self._limit = limit
        self._give_back = give_back
        self._callers: deque[asyncio.Future[P]] = deque()

    def __len__(self) -> int:
        return len(self._callers)

    @property
    def full(self) -> bool:
        return len(self._callers) >= self._limit

    async def wait(self, deadline: float) -> P:
        """A place. Raises TimeoutError, and whatever `fail` was given."""
        loop = asyncio.get_running_loop()
        caller: asyncio.Future[P] = loop.create_future()
        self._callers.append(caller)
        try:
            with Limit(max(0.0, deadline - loop.time())):
                return await caller
        except BaseException:
            if caller in self._callers:
                self._callers.remove(caller)
            elif caller.done() and not caller.cancelled() and caller.exception() is None:
                self._give_back(caller.result())
            raise

    def serve(self, next_place: Callable[[], P | None]) -> None:
        """Hand out places for as long as there are callers and places."""
        while self._callers:
            if self._callers[0].done():
                self._callers.popleft()
                continue
            place = next_place()
            if place is None:
                return
            self._callers.popleft().set_result(place)

    def fail(self, error: Callable[[], Exception]) -> None:
        """Let all callers raise."""
        while self._callers:
            caller = self._callers.popleft()
            if not caller.done():
                caller.set_exception(error())
