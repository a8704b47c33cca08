"""A model endpoint that saturates: it answers a number of requests at once, and others wait.

A request of `tokens` takes `tokens / tokens_per_second` once it has a slot. Requests wait for a
slot in their order; where `queue_size` wait already, a further one is rejected with status 429.
So the end of a request is known when it comes, and the same class serves two purposes: the
simulation of a cluster asks it for the delays, and this module answers real requests with it:

    python -m benchmarks.saturating_model --port 0 --slots 32 --seconds 1 --sigma 0.3

asks for a tool in every turn of a rollout but the last (`--turns`), as the model of the other
benchmarks does. `GET /v1/load` reports what it has done. A request whose caller has left keeps its
slot to its end.
"""

import asyncio
import heapq
import math
import time
from collections import deque
from random import Random

from tests.counterparts.answers import error
from tests.counterparts.life import parser
from tests.counterparts.minds import BenchMind, message
from tests.counterparts.model import allow_many_connections, new_loop, serve


class SaturatingEndpoint:
    """The slots of an endpoint, and the requests that wait for one. Times are its caller's."""

    def __init__(self, slots: int, tokens_per_second: float, queue_size: int) -> None:
        self.slots = slots
        self.tokens_per_second = tokens_per_second
        self.queue_size = queue_size
        self.requests = 0
        self.rejected = 0
        self.tokens = 0.0
        self.seconds = 0.0
        """The time in which slots were busy, in all."""
        self.waited = 0.0
        self._free_at: list[float] = [-math.inf] * slots
        self._starts: deque[float] = deque()

    def take(self, now: float, tokens: float) -> float | None:
        """The seconds to the answer of a request that comes now; None where it is rejected."""
        while self._starts and self._starts[0] <= now:
            self._starts.popleft()
        self.requests += 1
        if len(self._starts) >= self.queue_size:
            self.rejected += 1
            return None
        start = max(now, self._free_at[0])
        if start > now:
            self._starts.append(start)
        seconds = tokens / self.tokens_per_second
        heapq.heapreplace(self._free_at, start + seconds)
        self.tokens += tokens
        self.seconds += seconds
        self.waited += start - now
        return start + seconds - now

    def report(self) -> dict[str, float]:
        answered = max(1, self.requests - self.rejected)
        return {
            "requests": self.requests,
            "rejected": self.rejected,
            "mean_seconds": self.seconds / answered,
            "mean_wait": self.waited / answered,
        }


def lognormal(random: Random, mean: float, sigma: float) -> float:
    """A random time or size with this mean; `sigma` is that of its logarithm."""
    return mean * math.exp(sigma * random.gauss(0.0, 1.0) - sigma * sigma / 2)


class SaturatingMind(BenchMind):
    """Answers as the other benchmarks' model does, when a slot has had the time for it."""

    def __init__(
        self, endpoint: SaturatingEndpoint, seconds: float, sigma: float, *, turns: int, seed: int
    ) -> None:
        super().__init__(0.0)
        self._turns = turns
        self._endpoint = endpoint
        self._seconds = seconds
        self._sigma = sigma
        self._random = Random(seed)

    def reply(self, head: bytes, body: bytes) -> tuple[bytes, float]:
        if head.startswith(b"GET /v1/load "):
            return message(200, self._endpoint.report()), 0.0
        if not head.startswith(b"POST "):
            return super().reply(head, body)
        last = body.count(b'"function_call_output"') >= self._turns - 1
        answer = self._response_final if last else self._response_call
        tokens = lognormal(self._random, self._seconds, self._sigma)
        delay = self._endpoint.take(time.monotonic(), tokens)
        if delay is None:
            return message(429, error("too many requests wait"), "retry-after: 1"), 0.0
        return answer, delay


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--slots", type=int, default=32, help="requests at once")
    options.add_argument("--seconds", type=float, default=1.0, help="mean time of a request")
    options.add_argument("--sigma", type=float, default=0.3, help="of the logarithm of that time")
    options.add_argument("--queue", type=int, default=1_000_000, help="requests that may wait")
    options.add_argument("--turns", type=int, default=2, help="requests of a rollout")
    options.add_argument("--seed", type=int, default=0)
    chosen = options.parse_args()
    # One token is one second here.
    endpoint = SaturatingEndpoint(chosen.slots, 1.0, chosen.queue)
    mind = SaturatingMind(
        endpoint, chosen.seconds, chosen.sigma, turns=chosen.turns, seed=chosen.seed
    )
    allow_many_connections()
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(serve(mind, chosen.port, end_with_stdin=chosen.end_with_stdin))


if __name__ == "__main__":
    main()
