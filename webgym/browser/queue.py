"""The line of those who wait for a session: fair, bounded, and left at once by who hangs up.

Clients take turns, and each client's requests are served in their order, so that a client with a
thousand requests does not keep out one with a single request. Where the line is full, a newcomer
takes the last place of whoever has most places, if that is more than its own.

The line owns no task: a timer of the event loop for each who waits, and whoever frees something
calls `serve`. What is given is a grant (room at a node), taken by one function and given back by
another; a grant that reaches nobody is given back.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Generic, TypeVar

from webgym.browser.contract.errors import NoSessionError

G = TypeVar("G")
LONGEST_CLIENT_NAME = 100
SHORTEST_RETRY, LONGEST_RETRY, USUAL_RETRY = 1.0, 60.0, 5.0
RATE_SAMPLE, RATE_WINDOW = 64, 60.0


class _Waiter(Generic[G]):
    __slots__ = ("client", "served", "timer")

    def __init__(self, client: str, served: "asyncio.Future[G]") -> None:
        self.client = client
        self.served = served
        self.timer: asyncio.TimerHandle | None = None


_Places = OrderedDict[_Waiter[G], None]


class WaitingLine(Generic[G]):
    """Hands out grants in fair turns."""

    def __init__(
        self,
        size: int,
        take: Callable[[], G | None],
        give_back: Callable[[G], None],
        why_none: Callable[[], str],
    ) -> None:
        """`why_none` says in words why there is nothing to be had now."""
        self._size = size
        self._take = take
        self._give_back = give_back
        self._why_none = why_none
        self._clients: OrderedDict[str, _Places[G]] = OrderedDict()
        self._waiting = 0
        self._rate = _Rate()
        self._closed: str | None = None

    def __len__(self) -> int:
        return self._waiting

    async def wait(self, client: str, until: float, *, ahead: bool = False) -> G:
        """A grant when it is this client's turn. Raises NoSessionError at the time `until`.

        `ahead` is for who was served and got nothing by it: first of all, also where it is full.
        """
        loop = asyncio.get_running_loop()
        if self._closed is not None:
            raise NoSessionError(self._closed)
        if not self._waiting:
            grant = self._take()
            if grant is not None:
                return grant
        if until <= loop.time():
            raise self._refusal(f"no session is free: {self._why_none()}")
        client = client[:LONGEST_CLIENT_NAME]
        if self._waiting >= self._size and not ahead:
            self._make_room(client)
        waiter = _Waiter[G](client, loop.create_future())
        self._join(waiter, ahead)
        waiter.timer = loop.call_at(until, self._time_out, waiter, until - loop.time())
        try:
            self.serve()
            return await waiter.served
        except asyncio.CancelledError:
            # It may have been served in the same moment.
            served = waiter.served
            if served.done() and not served.cancelled() and served.exception() is None:
                self._give_back(served.result())
                self.serve()
            raise
        finally:
            waiter.timer.cancel()
            self._leave(waiter)

    def serve(self) -> None:
        """Give to those whose turn it is, as far as there is something to give."""
        while self._clients:
            waiter = self._next()
            if waiter.served.done():
                self._leave(waiter)
                continue
            grant = self._take()
            if grant is None:
                return
            self._rate.note(asyncio.get_running_loop().time())
            self._leave(waiter)
            if waiter.client in self._clients:
                self._clients.move_to_end(waiter.client)
            waiter.served.set_result(grant)

    def close(self, why: str) -> None:
        """Send everybody away, and who comes later too."""
        self._closed = why
        while self._clients:
            waiter = self._next()
            self._leave(waiter)
            self._refuse(waiter, why)

    def retry_after(self) -> float:
        """When to ask again: about as long as it takes to serve all who wait."""
        rate = self._rate.per_second(asyncio.get_running_loop().time())
        if rate is None:
            return USUAL_RETRY
        return round(min(max((self._waiting + 1) / rate, SHORTEST_RETRY), LONGEST_RETRY), 1)

    def _next(self) -> _Waiter[G]:
        return next(iter(next(iter(self._clients.values()))))

    def _join(self, waiter: _Waiter[G], ahead: bool) -> None:
        places = self._clients.setdefault(waiter.client, OrderedDict())
        places[waiter] = None
        self._waiting += 1
        if ahead:
            places.move_to_end(waiter, last=False)
            self._clients.move_to_end(waiter.client, last=False)

    def _leave(self, waiter: _Waiter[G]) -> None:
        places = self._clients.get(waiter.client)
        if places is None or waiter not in places:
            return
        del places[waiter]
        self._waiting -= 1
        if not places:
            del self._clients[waiter.client]

    def _make_room(self, client: str) -> None:
        """Raises NoSessionError where nobody has more places than this client would."""
        largest = max(self._clients.values(), key=len, default=OrderedDict())
        own = self._clients.get(client, ())
        if len(largest) <= len(own) + 1:
            raise self._refusal(f"{self._waiting} requests wait already: {self._why_none()}")
        last = next(reversed(largest))
        self._leave(last)
        self._refuse(last, "the line is full, and other clients have fewer places in it")

    def _time_out(self, waiter: _Waiter[G], waited: float) -> None:
        self._leave(waiter)
        self._refuse(waiter, f"no session was free within {waited:.3g} s: {self._why_none()}")

    def _refuse(self, waiter: _Waiter[G], why: str) -> None:
        if not waiter.served.done():
            waiter.served.set_exception(self._refusal(why))

    def _refusal(self, why: str) -> NoSessionError:
        return NoSessionError(why, retry_after=self.retry_after())


class _Rate:
    """How many were served lately."""

    def __init__(self) -> None:
        self._times: deque[float] = deque(maxlen=RATE_SAMPLE)

    def note(self, now: float) -> None:
        self._times.append(now)

    def per_second(self, now: float) -> float | None:
        """None while too little is known."""
        while self._times and now - self._times[0] > RATE_WINDOW:
            self._times.popleft()
        if len(self._times) < 2:
            return None
        return len(self._times) / max(now - self._times[0], 1e-3)
