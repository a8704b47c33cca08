"""Model endpoints as one: calls that end in time, in an answer or in a typed error.

*A call* takes room at an endpoint, tries, and on a fault that another try may mend tries again:
at once where an endpoint is left that it has not tried, and else after a wait that grows with full
jitter. It ends with its caller's deadline at the latest.

*Two layers of retries.* The pool mends what a second knock mends within seconds: a connection that
was reset, a worker that restarts, a limit for a moment. Its budget is small, because the engine
above it also retries, whole rollouts over minutes, and the two budgets multiply. What the pool
gives up it raises with the wait that was asked for, and the engine decides.

*Cancelling* a call gives its room back and closes its connection.
"""

import asyncio
from collections.abc import Sequence
from random import Random
from typing import Self

import msgspec

from rollgym.engine import Backoff
from rollgym.records import (
    DeadlineError,
    ModelUnavailableError,
    RolloutError,
)
from rollgym.servers.context import current_deadline
from rollgym.servers.endpoints.endpoint import Endpoint, EndpointReport
from rollgym.servers.endpoints.fault import Fault
from rollgym.servers.endpoints.health import HealthRules
from rollgym.servers.endpoints.line import Line, NoRoom
from rollgym.servers.endpoints.retries import RetryRules
from rollgym.servers.endpoints.settings import EndpointSettings, PoolSettings
from rollgym.servers.endpoints.wire import Wire


class PoolReport(msgspec.Struct, frozen=True):
    """The endpoints, and how many calls wait for one of them."""

    waiting: int
    endpoints: tuple[EndpointReport, ...]


class EndpointPool:
    """The client of one model behind one or several endpoints.

    Belongs to the event loop of its first call; close it there.
    """

    def __init__(
        self,
        endpoints: Sequence[EndpointSettings],
        settings: PoolSettings | None = None,
        *,
        seed: int | None = None,
    ) -> None:
        """`seed` makes the waits between tries reproducible."""
        if not endpoints:
            raise ValueError("a pool needs at least one endpoint")
        chosen = self._settings = settings or PoolSettings()
        self._retries = RetryRules(
            chosen.max_retries,
            Backoff(chosen.backoff_initial, maximum=chosen.backoff_maximum, jitter=1.0),
            chosen.max_retry_after,
        )
        rules = HealthRules(
            chosen.failures_before_rest,
            Backoff(chosen.rest_initial, maximum=chosen.rest_maximum, jitter=0.0),
            chosen.max_retry_after,
        )
        self._endpoints = tuple(Endpoint(each, rules) for each in endpoints)
        self._line = Line(self._endpoints, chosen.max_rest_wait)
        self._wire = Wire(chosen)
        self._random = Random(seed)  # noqa: S311 - spreads load, guards nothing
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Send away who waits and close all connections, those in use too."""
        self._closed = True
        self._line.close()
        await self._wire.close()

    async def post(self, path: str, body: bytes, *, deadline: float | None = None) -> bytes:
        """Send JSON to a path such as `/responses`; the JSON object of the answer, as bytes.

        `deadline` is in the event loop's time; an earlier one of the call context holds. Raises the
        model errors of `rollgym.records`, and DeadlineError.
        """
        return await self._call("POST", path, body, deadline)

    async def get(self, path: str, *, deadline: float | None = None) -> bytes:
        """The JSON object at a path such as `/models`, under the same promises as `post`."""
        return await self._call("GET", path, None, deadline)

    def report(self) -> PoolReport:
        """How the endpoints are doing. Call it in the event loop."""
        now = asyncio.get_running_loop().time()
        return PoolReport(self._line.waiting, tuple(each.report(now) for each in self._endpoints))

    async def _call(
        self, method: str, path: str, body: bytes | None, deadline: float | None
    ) -> bytes:
        clock = asyncio.get_running_loop().time
        ambient = current_deadline()
        if deadline is None or (ambient is not None and ambient < deadline):
            deadline = ambient
        if deadline is None:
            deadline = clock() + self._settings.call_timeout
        tried: list[Endpoint] = []
        faults: list[Fault] = []
        while True:
            endpoint = self._line.take(clock(), tried) or await self._line.wait(deadline, tried)
            if isinstance(endpoint, NoRoom):
                if faults:
                    raise _error(method, path, tried, faults)
                raise self._not_sent(method, path, endpoint.resting)
            answer = await self._try(endpoint, method, path, body, deadline)
            if not isinstance(answer, Fault):
                return answer
            tried.append(endpoint)
            faults.append(answer)
            delay = self._wait_after(tried, faults, deadline)
            if delay is None:
                raise _error(method, path, tried, faults)
            await asyncio.sleep(delay)

    async def _try(
        self, endpoint: Endpoint, method: str, path: str, body: bytes | None, deadline: float
    ) -> bytes | Fault:
        clock = asyncio.get_running_loop().time
        began = clock()
        try:
            answer = await self._wire.ask(endpoint, method, path, body, deadline - began)
            if isinstance(answer, Fault):
                endpoint.failed(answer, began, clock(), alone=len(self._endpoints) == 1)
            else:
                endpoint.succeeded()
        except asyncio.CancelledError:
            endpoint.cancelled()
            raise
        finally:
            self._line.leave(endpoint)
        return answer

    def _wait_after(
        self, tried: Sequence[Endpoint], faults: Sequence[Fault], deadline: float
    ) -> float | None:
        if self._closed:
            return None
        now = asyncio.get_running_loop().time()
        elsewhere = any(
            each not in tried and each.health.wakes_at <= now for each in self._endpoints
        )
        seed = self._random.getrandbits(63)
        return self._retries.wait(faults, deadline - now, seed, elsewhere=elsewhere)

    def _not_sent(self, method: str, path: str, resting: Endpoint | None) -> RolloutError:
        """Why a call was never sent."""
        if self._closed:
            return ModelUnavailableError(f"{method} {path} was not sent: the pool was closed")
        if resting is None:
            busy = sum(each.in_flight for each in self._endpoints)
            return DeadlineError(
                f"{method} {path} was not sent: the deadline passed with {busy} requests in flight "
                "and no room for another; allow more with max_concurrency, or run fewer in parallel"
            )
        now = asyncio.get_running_loop().time()
        left = max(0.0, resting.health.wakes_at - now)
        others = ", as do all others of its pool" if len(self._endpoints) > 1 else ""
        illness = resting.illness or Fault(ModelUnavailableError, "failed")
        return illness.error(
            f"{method} {resting.shown_url(path)} was not sent: the endpoint rests for {left:.1f} s "
            f"more{others}; an earlier request {illness.reason}",
            retryable=illness.retryable,
            retry_after=left,
        )


def _error(
    method: str, path: str, tried: Sequence[Endpoint], faults: Sequence[Fault]
) -> RolloutError:
    """The latest fault as the error to raise, with the one before it where that was another."""
    endpoint, fault = tried[-1], faults[-1]
    tries = "1 try" if len(tried) == 1 else f"{len(tried)} tries"
    places = len(set(tried))
    at = f" at {places} endpoints" if places > 1 else ""
    before = [each.reason for each in faults[-2:-1] if each.error is not fault.error]
    earlier = "".join(f"; the try before {reason}" for reason in before)
    return fault.raised(
        f"{method} {endpoint.shown_url(path)} {fault.reason} ({tries}{at}{earlier})"
    )
