"""What an attempt does on a simulated cluster, and what became of its time.

It waits for a session, then takes its steps: the page takes a time, then the model does. Times are
lognormal. A share of the attempts hangs at one of the steps, until the deadline of the attempt or
until it is omitted as a straggler. What an attempt does depends on its rollout and its number, not
on the order of events.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable
from random import Random
from typing import Any

from benchmarks.cluster_nodes import Nodes
from benchmarks.cluster_settings import Cluster
from benchmarks.saturating_model import SaturatingEndpoint, lognormal
from rollgym.engine import WorkItem
from rollgym.records import (
    BrowserError,
    Completed,
    FailureKind,
    Outcome,
    RolloutError,
    WorkerLostError,
    derive_seed,
)
from rollgym.servers.endpoints import EndpointPool, EndpointPoolSettings, EndpointSettings
from rollgym.servers.endpoints.endpoint import Endpoint
from rollgym.servers.endpoints.failures import FailedTry, failed_try_of
from rollgym.servers.endpoints.transport import EndpointTransport
from tests.simulation.loop import SimulatedLoop

COMPLETED, STRAGGLER = "completed", "straggler"
_REJECTED = b'{"error":{"message":"too many requests wait"}}'
_UNAVAILABLE = b'{"error":{"message":"the server restarts"}}'


class Attempts:
    """The engine's worker: what an attempt does, and what became of its time."""

    def __init__(self, cluster: Cluster, loop: SimulatedLoop, model: SaturatingEndpoint) -> None:
        self.slot_seconds: defaultdict[str, float] = defaultdict(float)
        self.failed: Counter[str] = Counter()
        self.waited = 0.0
        self.useful_tokens = 0.0
        self.last_end = 0.0
        self.tail_at = 0.0
        self.busy_at_tail = 0.0
        self._to_start = cluster.rollouts
        self._running = 0
        self._busy = 0.0
        self._counted_at = 0.0
        lost: Callable[[str], RolloutError] = (
            WorkerLostError if cluster.lost_as == "worker" else BrowserError
        )
        self.nodes = Nodes(cluster.nodes, cluster.sessions, cluster.session_queue, lost)
        self._cluster = cluster
        self._loop = loop
        settings = EndpointPoolSettings()
        self._pool = EndpointPool(
            [EndpointSettings(base_url="http://model.simulated/v1")],
            settings,
            seed=cluster.seed,
            transport=SimulatedTransport(cluster, settings, model),
        )

    async def __call__(self, item: WorkItem, attempt: int, deadline: float) -> Outcome:
        began = self._loop.time()
        ending: str = COMPLETED
        self._count(1)
        if attempt == 1:
            self._to_start -= 1
            if not self._to_start:
                self.tail_at, self.busy_at_tail = began, self._busy
        try:
            tokens = await self.nodes.use(
                self._cluster.wait_seconds, lambda: self._episode(item, attempt, began, deadline)
            )
            self.useful_tokens += tokens
        except RolloutError as error:
            ending = error.kind
            raise
        except asyncio.CancelledError:
            late = self._loop.time() >= deadline - 1e-6
            ending = FailureKind.TIMEOUT if late else STRAGGLER
            raise
        finally:
            self.last_end = self._loop.time()
            self._count(-1)
            self.slot_seconds[ending] += self.last_end - began
            if ending != COMPLETED:
                self.failed[ending] += 1
        return Completed(1.0)

    def _count(self, change: int) -> None:
        """Add the time of the running attempts up to now, before their number changes."""
        now = self._loop.time()
        self._busy += self._running * (now - self._counted_at)
        self._running, self._counted_at = self._running + change, now

    async def _episode(self, item: WorkItem, attempt: int, began: float, deadline: float) -> float:
        """Take the steps; returns the tokens that were sampled."""
        cluster, random = self._cluster, Random(derive_seed(item.seed, "attempt", attempt))
        self.waited += self._loop.time() - began
        steps = max(1, round(lognormal(random, cluster.steps, cluster.steps_sigma)))
        hangs = random.randrange(steps) if random.random() < cluster.hanging else None
        sampled = 0.0
        for step in range(steps):
            if step == hangs:
                await asyncio.sleep(max(0.0, deadline - self._loop.time()) + 1.0)
            if cluster.page_seconds:
                await asyncio.sleep(lognormal(random, cluster.page_seconds, cluster.page_sigma))
            tokens = lognormal(random, cluster.tokens, cluster.tokens_sigma)
            await self._pool.post("/responses", b"%f" % tokens, deadline=deadline)
            sampled += tokens
        return sampled


class SimulatedTransport(EndpointTransport):
    """Sends requests to the simulated endpoint. The body of a request is its number of tokens."""

    def __init__(
        self, cluster: Cluster, settings: EndpointPoolSettings, model: SaturatingEndpoint
    ) -> None:
        super().__init__(settings)
        self._pool_settings = settings
        self._endpoint = model
        self._errors = cluster.endpoint_errors
        self._random = Random(derive_seed(cluster.seed, "endpoint"))

    async def send(
        self,
        endpoint: Endpoint,
        method: str,
        path: str,
        body: bytes | None,
        seconds: float,
        *,
        in_parts: bool = False,
        read: Callable[[bytes], Any] = bytes,
    ) -> bytes | FailedTry:
        assert body is not None
        if self._random.random() < self._errors:
            return failed_try_of(503, {}, _UNAVAILABLE, endpoint.redact, clock=0.0)
        delay = self._endpoint.take(asyncio.get_running_loop().time(), float(body))
        if delay is None:
            return failed_try_of(429, {}, _REJECTED, endpoint.redact, clock=0.0)
        patience = min(seconds, self._pool_settings.request_timeout)
        if delay > patience:
            await asyncio.sleep(patience)
            return self.failed(TimeoutError(), seconds)
        await asyncio.sleep(delay)
        return b"{}"
