"""Who is asked next, and who waits: one line for all endpoints, first come, first served.

`choose` is the rule, a pure function of the endpoints and the time. `Line` applies it: at once
while nobody waits, and otherwise to the one who has waited longest whenever an endpoint has room
again or wakes. It owns no task; two kinds of timers of the event loop call it, one for the next
endpoint to wake and one for each who waits.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rollgym.servers.endpoints.endpoint import Endpoint


def choose(
    endpoints: Iterable[Endpoint], now: float, tried: Sequence[Endpoint] = ()
) -> Endpoint | None:
    """The endpoint that takes the next request; None where none can take one now.

    The one that this call has `tried` least, and of those the least loaded for its weight. An
    endpoint due for a probe goes first, for else a healthy one would always be better; a call that
    has failed already is spared from probing.
    """
    best, best_rank = None, (0, False, 0.0, 0.0)
    retrying = bool(tried)
    for endpoint in endpoints:
        if not endpoint.can_take(now):
            continue
        rank = (
            tried.count(endpoint),
            endpoint.health.resting is retrying,
            endpoint.in_flight / endpoint.weight,
            endpoint.taken / endpoint.weight,
        )
        if best is None or rank < best_rank:
            best, best_rank = endpoint, rank
    return best


def next_to_wake(endpoints: Sequence[Endpoint], now: float) -> Endpoint | None:
    """The first to wake while all endpoints are kept from work; None when one is awake."""
    first = min(endpoints, key=lambda endpoint: endpoint.health.wakes_at)
    return first if first.health.wakes_at > now else None


class NoRoom(NamedTuple):
    """Why there is no room in time: all rest, and `resting` wakes first, or else all are busy."""

    resting: Endpoint | None = None


class _Waiter:
    """One who waits: until when, and for anything but what was tried, if possible."""

    __slots__ = ("deadline", "served", "timer", "tried")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, deadline: float, tried: Sequence[Endpoint]
    ) -> None:
        self.served: asyncio.Future[Endpoint | NoRoom] = loop.create_future()
        self.deadline = deadline
        self.tried = tried
        self.timer: asyncio.TimerHandle | None = None


class Line:
    """Hands out the endpoints' room. What is taken must be given back with `leave`."""

    def __init__(self, endpoints: Sequence[Endpoint], patience: float) -> None:
        """`patience` is how long anybody waits while no endpoint is awake.

        One that only asked for time is waited for as long as it asked: it will be there.
        """
        self._endpoints = endpoints
        self._patience = patience
        self._waiting: OrderedDict[_Waiter, None] = OrderedDict()
        self._alarm: asyncio.TimerHandle | None = None
        self._closed = False

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def take(self, now: float, tried: Sequence[Endpoint] = ()) -> Endpoint | None:
        """Room at an endpoint, if there is some and nobody waits for it."""
        if self._waiting or self._closed:
            return None
        endpoint = choose(self._endpoints, now, tried)
        if endpoint is not None:
            endpoint.take(now)
        return endpoint

    async def wait(self, deadline: float, tried: Sequence[Endpoint] = ()) -> Endpoint | NoRoom:
        """Room at an endpoint when it is this one's turn, or why there will be none.

        It ends with the deadline, and before it where all endpoints rest beyond it or too long.
        """
        if self._closed:
            return NoRoom()
        loop = asyncio.get_running_loop()
        first = next_to_wake(self._endpoints, loop.time())
        if first is not None and first.health.wakes_at >= deadline:
            return NoRoom(first)
        waiter = _Waiter(loop, deadline, tried)
        self._waiting[waiter] = None
        self._serve()
        self._look_later(loop, waiter)
        try:
            return await waiter.served
        except asyncio.CancelledError:
            # It may have been served in the same moment.
            answer = None if waiter.served.cancelled() else waiter.served.result()
            if isinstance(answer, Endpoint):
                self.leave(answer)
            raise
        finally:
            self._waiting.pop(waiter, None)
            if waiter.timer is not None:
                waiter.timer.cancel()

    def leave(self, endpoint: Endpoint) -> None:
        """The request has ended, however it did."""
        endpoint.in_flight -= 1
        if self._waiting:
            self._serve()

    def close(self) -> None:
        """Send everybody away, and who comes later too."""
        self._closed = True
        if self._alarm is not None:
            self._alarm.cancel()
        while self._waiting:
            self._answer(self._waiting.popitem()[0], NoRoom())

    def _serve(self) -> None:
        """Give room to those who have waited longest, as far as there is some."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        while self._waiting:
            waiter = next(iter(self._waiting))
            if not waiter.served.done():
                endpoint = choose(self._endpoints, now, waiter.tried)
                if endpoint is None:
                    break
                endpoint.take(now)
                self._answer(waiter, endpoint)
            del self._waiting[waiter]
        self._set_alarm(loop, now)

    def _set_alarm(self, loop: asyncio.AbstractEventLoop, now: float) -> None:
        """Serve again when the next endpoint wakes."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        wakings = [each.health.wakes_at for each in self._endpoints if each.health.wakes_at > now]
        if self._waiting and wakings:
            self._alarm = loop.call_at(min(wakings), self._serve)

    def _look_later(self, loop: asyncio.AbstractEventLoop, waiter: _Waiter) -> None:
        if not waiter.served.done():
            when = min(waiter.deadline, loop.time() + self._patience)
            waiter.timer = loop.call_at(when, self._look, waiter)

    def _look(self, waiter: _Waiter) -> None:
        """Whether waiting still makes sense after so long."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        resting = next_to_wake(self._endpoints, now)
        if now >= waiter.deadline or (resting is not None and not resting.asked_for_time):
            self._answer(waiter, NoRoom(resting))
        else:
            self._look_later(loop, waiter)

    def _answer(self, waiter: _Waiter, answer: Endpoint | NoRoom) -> None:
        if not waiter.served.done():
            waiter.served.set_result(answer)
