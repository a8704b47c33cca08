"""Slots at the endpoints of a pool, and the queue of calls that wait for one.

`choose` is the rule, a pure function of the endpoints and the time. `SlotQueue` applies it: at once
while the queue is empty, and otherwise to the call that has waited longest, whenever an endpoint
gets a free slot or its cooldown ends. It has no task; two kinds of timers of the event loop call
it, one for the next end of a cooldown and one for each waiting call.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

from rollgym.servers.endpoints.endpoint import Endpoint


def choose(
    endpoints: Sequence[Endpoint], now: float, tried: Sequence[Endpoint] = ()
) -> Endpoint | None:
    """The endpoint for the next request; None where none can accept one now.

    It is the endpoint that this call has `tried` least, and of those the least loaded for its
    weight. An endpoint due for a probe goes first, since otherwise a healthy one would always be
    better; a call that has already failed does not probe.
    """
    if len(endpoints) == 1:
        return endpoints[0] if endpoints[0].has_slot(now) else None
    best, best_rank = None, (0, False, 0.0, 0.0)
    retrying = bool(tried)
    for endpoint in endpoints:
        if not endpoint.has_slot(now):
            continue
        rank = (
            tried.count(endpoint),
            endpoint.health.cooling_down is retrying,
            endpoint.in_flight / endpoint.weight,
            endpoint.acquired / endpoint.weight,
        )
        if best is None or rank < best_rank:
            best, best_rank = endpoint, rank
    return best


def first_available(endpoints: Sequence[Endpoint], now: float) -> Endpoint | None:
    """The endpoint whose cooldown ends first; None when one of them is not in cooldown."""
    first = min(endpoints, key=lambda endpoint: endpoint.health.available_at)
    return first if first.health.available_at > now else None


class NoSlot(NamedTuple):
    """No slot became free in time.

    All endpoints are in cooldown and `first` is the first to leave it, or all slots are in use.
    """

    first: Endpoint | None = None


class _QueuedCall:
    """A waiting call: its deadline, and the endpoints it has tried."""

    __slots__ = ("deadline", "served", "timer", "tried")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, deadline: float, tried: Sequence[Endpoint]
    ) -> None:
        self.served: asyncio.Future[Endpoint | NoSlot] = loop.create_future()
        self.deadline = deadline
        self.tried = tried
        self.timer: asyncio.TimerHandle | None = None


class SlotQueue:
    """Hands out slots, first come, first served. An acquired slot must be released."""

    def __init__(self, endpoints: Sequence[Endpoint], cooldown_wait: float) -> None:
        """A call waits at most `cooldown_wait` seconds while all endpoints are in cooldown.

        It waits longer for an endpoint that has only asked for a pause, because that one returns.
        """
        self._endpoints = endpoints
        self._cooldown_wait = cooldown_wait
        self._waiting: OrderedDict[_QueuedCall, None] = OrderedDict()
        self._alarm: asyncio.TimerHandle | None = None
        self._closed = False

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def acquire(self, now: float, tried: Sequence[Endpoint] = ()) -> Endpoint | None:
        """A slot at an endpoint; None where none is free or earlier calls are waiting."""
        if self._waiting or self._closed:
            return None
        endpoint = choose(self._endpoints, now, tried)
        if endpoint is not None:
            endpoint.acquire(now)
        return endpoint

    async def wait(self, deadline: float, tried: Sequence[Endpoint] = ()) -> Endpoint | NoSlot:
        """A slot at an endpoint when it is this call's turn, or `NoSlot`.

        Returns at the deadline, and earlier where all endpoints are in cooldown beyond the deadline
        or for too long.
        """
        if self._closed:
            return NoSlot()
        loop = asyncio.get_running_loop()
        first = first_available(self._endpoints, loop.time())
        if first is not None and first.health.available_at >= deadline:
            return NoSlot(first)
        call = _QueuedCall(loop, deadline, tried)
        self._waiting[call] = None
        self._serve()
        self._check_later(loop, call)
        try:
            return await call.served
        except asyncio.CancelledError:
            # The call may have been served at the same moment.
            result = None if call.served.cancelled() else call.served.result()
            if isinstance(result, Endpoint):
                self.release(result)
            raise
        finally:
            self._waiting.pop(call, None)
            if call.timer is not None:
                call.timer.cancel()

    def release(self, endpoint: Endpoint) -> None:
        """Give back the slot of a request that has ended."""
        endpoint.in_flight -= 1
        if self._waiting:
            self._serve()

    def close(self) -> None:
        """Answer all waiting and later calls with `NoSlot`."""
        self._closed = True
        if self._alarm is not None:
            self._alarm.cancel()
        while self._waiting:
            self._finish(self._waiting.popitem()[0], NoSlot())

    def _serve(self) -> None:
        """Give free slots to the calls that have waited longest."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        while self._waiting:
            call = next(iter(self._waiting))
            if not call.served.done():
                endpoint = choose(self._endpoints, now, call.tried)
                if endpoint is None:
                    break
                endpoint.acquire(now)
                self._finish(call, endpoint)
            del self._waiting[call]
        self._set_alarm(loop, now)

    def _set_alarm(self, loop: asyncio.AbstractEventLoop, now: float) -> None:
        """Serve again when the next cooldown ends."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        ends = [
            each.health.available_at for each in self._endpoints if each.health.available_at > now
        ]
        if self._waiting and ends:
            self._alarm = loop.call_at(min(ends), self._serve)

    def _check_later(self, loop: asyncio.AbstractEventLoop, call: _QueuedCall) -> None:
        if not call.served.done():
            when = min(call.deadline, loop.time() + self._cooldown_wait)
            call.timer = loop.call_at(when, self._check, call)

    def _check(self, call: _QueuedCall) -> None:
        """End the wait at the deadline, or where all endpoints have been failing for too long."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        first = first_available(self._endpoints, now)
        if now >= call.deadline or (first is not None and not first.asked_for_pause):
            self._finish(call, NoSlot(first))
        else:
            self._check_later(loop, call)

    def _finish(self, call: _QueuedCall, result: Endpoint | NoSlot) -> None:
        if not call.served.done():
            call.served.set_result(result)
