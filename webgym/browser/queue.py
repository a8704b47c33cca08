"""The queue of requests that wait for a session: fair and bounded.

Clients take turns, and the requests of one client are served in order, so a client with a thousand
requests does not block one with a single request. When the queue is full, a new request replaces
the last request of the client with the most requests, if that client has more than the new one.

The queue owns no task. Each request has a timer of the event loop, and the code that frees capacity
calls `serve`. What a request gets is a grant (a slot of a node or of a browser), which one function
acquires and another releases. A grant whose request was cancelled is released.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Generic, TypeVar

from webgym.browser.contract.errors import NoSessionError

G = TypeVar("G")
LONGEST_CLIENT_NAME = 100
SHORTEST_RETRY, LONGEST_RETRY, DEFAULT_RETRY = 1.0, 60.0, 5.0
RATE_SAMPLE, RATE_WINDOW = 64, 60.0


class _QueuedRequest(Generic[G]):
    __slots__ = ("client", "served", "timer")

    def __init__(self, client: str, served: "asyncio.Future[G]") -> None:
        self.client = client
        self.served = served
        self.timer: asyncio.TimerHandle | None = None


_ClientRequests = OrderedDict[_QueuedRequest[G], None]


class SessionQueue(Generic[G]):
    """Grants slots to waiting requests in fair turns."""

    def __init__(
        self,
        size: int,
        acquire: Callable[[], G | None],
        release: Callable[[G], None],
        why_none: Callable[[], str],
    ) -> None:
        """`why_none` says in words why no grant is available now."""
        self._size = size
        self._acquire = acquire
        self._release = release
        self._why_none = why_none
        self._clients: OrderedDict[str, _ClientRequests[G]] = OrderedDict()
        self._waiting = 0
        self._served_at: deque[float] = deque(maxlen=RATE_SAMPLE)
        self._closed: str | None = None

    def __len__(self) -> int:
        return self._waiting

    async def wait(self, client: str, until: float, *, ahead: bool = False) -> G:
        """A grant when it is this client's turn. Raises NoSessionError at the time `until`.

        `ahead` is for a request whose last grant led to no session: it becomes the first in the
        queue, even when the queue is full.
        """
        loop = asyncio.get_running_loop()
        if self._closed is not None:
            raise NoSessionError(self._closed)
        if not self._waiting:
            grant = self._acquire()
            if grant is not None:
                return grant
        if until <= loop.time():
            raise self._rejection(f"no session is free: {self._why_none()}")
        client = client[:LONGEST_CLIENT_NAME]
        if self._waiting >= self._size and not ahead:
            self._drop_one_for(client)
        request = _QueuedRequest[G](client, loop.create_future())
        self._add(request, ahead)
        request.timer = loop.call_at(until, self._time_out, request, until - loop.time())
        try:
            self.serve()
            return await request.served
        except asyncio.CancelledError:
            # It may have been served in the same moment.
            served = request.served
            if served.done() and not served.cancelled() and served.exception() is None:
                self._release(served.result())
                self.serve()
            raise
        finally:
            request.timer.cancel()
            self._remove(request)

    def serve(self) -> None:
        """Serve the requests whose turn it is, as far as grants are available."""
        while self._clients:
            request = self._next()
            if request.served.done():
                self._remove(request)
                continue
            grant = self._acquire()
            if grant is None:
                return
            self._served_at.append(asyncio.get_running_loop().time())
            self._remove(request)
            if request.client in self._clients:
                self._clients.move_to_end(request.client)
            request.served.set_result(grant)

    def close(self, why: str) -> None:
        """Reject all requests, now and later. The first reason stays."""
        self._closed = self._closed or why
        while self._clients:
            request = self._next()
            self._remove(request)
            self._reject(request, why)

    def retry_after(self) -> float:
        """When to ask again: about the time it takes to serve all requests that wait."""
        now = asyncio.get_running_loop().time()
        recent = [served for served in self._served_at if now - served <= RATE_WINDOW]
        if len(recent) < 2:
            return DEFAULT_RETRY
        rate = len(recent) / max(now - recent[0], 1e-3)
        return round(min(max((self._waiting + 1) / rate, SHORTEST_RETRY), LONGEST_RETRY), 1)

    def _next(self) -> _QueuedRequest[G]:
        return next(iter(next(iter(self._clients.values()))))

    def _add(self, request: _QueuedRequest[G], ahead: bool) -> None:
        requests = self._clients.setdefault(request.client, OrderedDict())
        requests[request] = None
        self._waiting += 1
        if ahead:
            requests.move_to_end(request, last=False)
            self._clients.move_to_end(request.client, last=False)

    def _remove(self, request: _QueuedRequest[G]) -> None:
        requests = self._clients.get(request.client)
        if requests is None or request not in requests:
            return
        del requests[request]
        self._waiting -= 1
        if not requests:
            del self._clients[request.client]

    def _drop_one_for(self, client: str) -> None:
        """Raises NoSessionError if no client has more requests than this one would have."""
        largest = max(self._clients.values(), key=len, default=OrderedDict())
        own = self._clients.get(client, ())
        if len(largest) <= len(own) + 1:
            raise self._rejection(f"{self._waiting} requests wait already: {self._why_none()}")
        last = next(reversed(largest))
        self._remove(last)
        self._reject(last, "the queue is full, and other clients have fewer requests in it")

    def _time_out(self, request: _QueuedRequest[G], waited: float) -> None:
        self._remove(request)
        self._reject(request, f"no session was free within {waited:.3g} s: {self._why_none()}")

    def _reject(self, request: _QueuedRequest[G], why: str) -> None:
        if not request.served.done():
            request.served.set_exception(self._rejection(why))

    def _rejection(self, why: str) -> NoSessionError:
        return NoSessionError(why, retry_after=self.retry_after())
