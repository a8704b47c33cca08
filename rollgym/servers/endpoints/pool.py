"""Several model endpoints used as one: every call ends in time, with a response or a typed error.

*A call* acquires a slot at an endpoint and sends its request. After a failure that another try may
fix it tries again: at once where an endpoint is left that it has not tried, and otherwise after a
backoff that grows, with full jitter. It ends with its caller's deadline at the latest.

*Two layers of retries.* The pool retries within seconds what a second request usually fixes: a
connection that was reset, a worker that restarts, a short rate limit. Its budget is small, because
the engine above it also retries, whole rollouts over minutes, and the two budgets multiply. The
error that the pool finally raises holds the wait that the endpoint asked for, and the engine
decides.

*A stream* is retried until it begins. From then on it holds its slot until it is closed, and ends
with an error when it breaks off, or `request_timeout` after its beginning.

*Cancelling* a call releases its slot and closes its connection.
"""

import asyncio
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, TypeVar

import msgspec

from rollgym.closing import AsyncClosable
from rollgym.records import DeadlineError, ModelUnavailableError, RolloutError
from rollgym.servers.context import current_deadline
from rollgym.servers.endpoints.endpoint import Endpoint, EndpointReport
from rollgym.servers.endpoints.failures import FailedTry, checked_object, retry_wait
from rollgym.servers.endpoints.settings import EndpointPoolSettings, EndpointSettings
from rollgym.servers.endpoints.slots import NoSlot, SlotQueue
from rollgym.servers.endpoints.times import POLICY_VERSION_HEADER, note_queued
from rollgym.servers.endpoints.transport import EndpointStream, EndpointTransport

T = TypeVar("T")


class PoolReport(msgspec.Struct, frozen=True):
    """The state of every endpoint, and how many calls wait for a slot."""

    waiting: int
    endpoints: tuple[EndpointReport, ...]


class EndpointPool(AsyncClosable):
    """The client of one model behind one or several endpoints.

    Belongs to the event loop of its first call; close it there.
    """

    def __init__(
        self,
        endpoints: Sequence[EndpointSettings],
        settings: EndpointPoolSettings | None = None,
        *,
        seed: int | None = None,
        transport: EndpointTransport | None = None,
        version_header: str | None = POLICY_VERSION_HEADER,
    ) -> None:
        """`seed` makes the backoffs reproducible. `transport` replaces the connections.

        `version_header` is the field of responses with the policy version, for `timing_call`.
        """
        if not endpoints:
            raise ValueError("a pool needs at least one endpoint")
        chosen = self._settings = settings or EndpointPoolSettings()
        self._endpoints = tuple(Endpoint(each, chosen) for each in endpoints)
        self._slots = SlotQueue(self._endpoints, chosen.max_rest_wait)
        self._transport = transport or EndpointTransport(chosen, version_header)
        self._random = Random(seed)  # noqa: S311 - spreads load, guards nothing
        self._closed = False

    async def close(self) -> None:
        """Fail the waiting calls and close all connections, also those in use."""
        self._closed = True
        self._slots.close()
        await self._transport.close()

    async def post(self, path: str, body: bytes, *, deadline: float | None = None) -> bytes:
        """Send JSON to a path such as `/responses`; returns the JSON object of the response.

        `deadline` is in the event loop's time; an earlier deadline of the call context holds.
        Raises the model errors of `rollgym.records`, and DeadlineError.
        """
        answer = await self._call("POST", path, body, deadline)
        assert isinstance(answer, bytes)  # noqa: S101 - it did not ask for parts
        return answer

    async def post_and_read(
        self,
        path: str,
        body: bytes,
        read: Callable[[bytes], T],
        *,
        deadline: float | None = None,
    ) -> T:
        """The same as `post`, with what `read` reads in the object.

        An object for which it raises msgspec.DecodeError is malformed, and asked for again.
        """
        answer: T = await self._call("POST", path, body, deadline, read=read)
        return answer

    async def stream(
        self, path: str, body: bytes, *, deadline: float | None = None
    ) -> "PoolStream | bytes":
        """Send JSON that asks for a stream of events; returns its parts, which must be closed.

        Returns the JSON object of an endpoint that does not stream. Raises like `post`, and the
        parts do as well.
        """
        answer: PoolStream | bytes = await self._call("POST", path, body, deadline, in_parts=True)
        return answer

    async def get(self, path: str, *, deadline: float | None = None) -> bytes:
        """Get the JSON object at a path such as `/models`, with the same promises as `post`."""
        answer = await self._call("GET", path, None, deadline)
        assert isinstance(answer, bytes)  # noqa: S101 - it did not ask for parts
        return answer

    def report(self) -> PoolReport:
        """The present state of the endpoints. Call it in the event loop."""
        now = asyncio.get_running_loop().time()
        return PoolReport(self._slots.waiting, tuple(each.report(now) for each in self._endpoints))

    async def _call(
        self,
        method: str,
        path: str,
        body: bytes | None,
        deadline: float | None,
        *,
        in_parts: bool = False,
        read: Callable[[bytes], Any] = checked_object,
    ) -> Any:
        clock = asyncio.get_running_loop().time
        ambient = current_deadline()
        if deadline is None or (ambient is not None and ambient < deadline):
            deadline = ambient
        if deadline is None:
            deadline = clock() + self._settings.call_timeout
        tried: list[Endpoint] = []
        failures: list[FailedTry] = []
        while True:
            slot: Endpoint | NoSlot | None = self._slots.acquire(clock(), tried)
            if slot is None:
                asked = clock()
                slot = await self._slots.wait(deadline, tried)
                note_queued(clock() - asked)
            if isinstance(slot, NoSlot):
                if failures:
                    raise _error(method, path, tried, failures)
                raise self._not_sent(method, path, slot.first)
            response = await self._try(
                slot, method, path, body, deadline, clock=clock, in_parts=in_parts, read=read
            )
            if isinstance(response, EndpointStream):
                ends = min(deadline, clock() + self._settings.request_timeout)
                return PoolStream(self, slot, response, f"{method} {slot.shown_url(path)}", ends)
            if not isinstance(response, FailedTry):
                return response
            tried.append(slot)
            failures.append(response)
            delay = self._wait_after(tried, failures, deadline)
            if delay is None:
                raise _error(method, path, tried, failures)
            await asyncio.sleep(delay)

    async def _try(
        self,
        endpoint: Endpoint,
        method: str,
        path: str,
        body: bytes | None,
        deadline: float,
        *,
        clock: Callable[[], float],
        in_parts: bool,
        read: Callable[[bytes], Any],
    ) -> Any:
        started = clock()
        response: Any = None
        try:
            response = await self._transport.send(
                endpoint, method, path, body, deadline - started, in_parts=in_parts, read=read
            )
            self.note(endpoint, response, started)
        except asyncio.CancelledError:
            endpoint.cancelled()
            raise
        finally:
            if not isinstance(response, EndpointStream):
                self._slots.release(endpoint)
        return response

    def note(self, endpoint: Endpoint, result: object, started: float) -> None:
        """Count the result of a request at its endpoint."""
        if isinstance(result, FailedTry):
            now = asyncio.get_running_loop().time()
            endpoint.failed(result, started, now, alone=len(self._endpoints) == 1)
        else:
            endpoint.succeeded()

    def release(self, endpoint: Endpoint) -> None:
        """Give back the slot of a stream that has ended."""
        self._slots.release(endpoint)

    def _wait_after(
        self, tried: Sequence[Endpoint], failures: Sequence[FailedTry], deadline: float
    ) -> float | None:
        if self._closed:
            return None
        now = asyncio.get_running_loop().time()
        elsewhere = any(
            each not in tried and each.health.available_at <= now for each in self._endpoints
        )
        seed = self._random.getrandbits(63)
        return retry_wait(self._settings, failures, deadline - now, seed, elsewhere=elsewhere)

    def _not_sent(self, method: str, path: str, first: Endpoint | None) -> RolloutError:
        """The error of a call that never got a slot."""
        if self._closed:
            return ModelUnavailableError(f"{method} {path} was not sent: the pool was closed")
        if first is None:
            busy = sum(each.in_flight for each in self._endpoints)
            return DeadlineError(
                f"{method} {path} was not sent: the deadline passed with {busy} requests in flight "
                "and no free slot; allow more with max_concurrency, or run fewer rollouts in "
                "parallel"
            )
        now = asyncio.get_running_loop().time()
        left = max(0.0, first.health.available_at - now)
        others = ", like all endpoints of its pool" if len(self._endpoints) > 1 else ""
        failed = first.last_failed_try or FailedTry(ModelUnavailableError, "failed")
        return failed.error(
            f"{method} {first.shown_url(path)} was not sent: the endpoint is in cooldown for "
            f"{left:.1f} s more{others}; an earlier request {failed.reason}",
            retryable=failed.retryable,
            retry_after=left,
        )


class PoolStream:
    """The parts of a stream of events, in order. `aclose` it, also after its end or an error."""

    def __init__(
        self, pool: EndpointPool, endpoint: Endpoint, stream: EndpointStream, sent: str, ends: float
    ) -> None:
        self._pool = pool
        self._endpoint = endpoint
        self._stream: EndpointStream | None = stream
        self._sent = sent
        self._ends = ends

    def __aiter__(self) -> "PoolStream":
        return self

    async def __anext__(self) -> bytes:
        if self._stream is None:
            raise StopAsyncIteration
        now = asyncio.get_running_loop().time()
        part = await self._stream.next_part(self._ends - now)
        if isinstance(part, FailedTry):
            self._pool.note(self._endpoint, part, now)
            raise part.to_error(f"{self._sent} {part.reason} (after the stream had begun)")
        if not part:
            raise StopAsyncIteration
        return part

    async def aclose(self) -> None:
        if self._stream is not None:
            stream, self._stream = self._stream, None
            stream.close()
            self._pool.release(self._endpoint)


def _error(
    method: str, path: str, tried: Sequence[Endpoint], failures: Sequence[FailedTry]
) -> RolloutError:
    """The latest failure as the error to raise, with the one before it where they differ."""
    endpoint, failed = tried[-1], failures[-1]
    tries = "1 try" if len(tried) == 1 else f"{len(tried)} tries"
    places = len(set(tried))
    at = f" at {places} endpoints" if places > 1 else ""
    before = [each.reason for each in failures[-2:-1] if each.error is not failed.error]
    earlier = "".join(f"; the try before {reason}" for reason in before)
    return failed.to_error(
        f"{method} {endpoint.shown_url(path)} {failed.reason} ({tries}{at}{earlier})"
    )
