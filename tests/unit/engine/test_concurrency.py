"""The adaptive limit against simulated servers."""

import heapq
import random
from collections.abc import Callable

from rollgym.engine import Adaptive, Fixed
from rollgym.engine.concurrency import AdaptiveLimit, limit_for

Server = Callable[[int, float], tuple[float, bool]]
"""Given the attempts in flight and the time: the latency of a new one, and whether overloaded."""


class Load:
    """Keeps a limit's worth of attempts in flight at a server, in simulated time."""

    def __init__(self, limit: AdaptiveLimit, server: Server, seed: int = 0) -> None:
        self.limit = limit
        self.now = 0.0
        self.limits: list[int] = []
        self._server = server
        self._random = random.Random(seed)
        self._flying: list[tuple[float, float, bool]] = []

    def run(self, ended: int, supply: int | None = None) -> None:
        for _ in range(ended):
            wanted = self.limit.current if supply is None else min(supply, self.limit.current)
            while len(self._flying) < wanted:
                latency, overload = self._server(len(self._flying) + 1, self.now)
                noisy = latency * self._random.uniform(0.8, 1.2)
                heapq.heappush(self._flying, (self.now + noisy, self.now, overload))
            in_flight = len(self._flying)
            self.now, started, overload = heapq.heappop(self._flying)
            self.limit.observe(
                started=started, ended=self.now, overload=overload, in_flight=in_flight
            )
            assert self.limit.current >= 1
            self.limits.append(self.limit.current)

    def usual(self) -> float:
        """The middle of the limits of late."""
        late = sorted(self.limits[-len(self.limits) // 4 :])
        return late[len(late) // 2]


def queueing(capacity: int) -> Server:
    """Serves so many at once; more wait their turn, so throughput stays and latency grows."""
    return lambda in_flight, _now: (max(1.0, in_flight / capacity), False)


def refusing(capacity: int) -> Server:
    """Answers 429 at once to what is over its capacity."""
    return lambda in_flight, _now: (0.05, True) if in_flight > capacity else (1.0, False)


def test_it_settles_near_the_capacity_of_a_server_that_queues() -> None:
    cases_1: list[int] = [4, 30, 200]
    for capacity in cases_1:
        for seed in range(5):
            load = Load(AdaptiveLimit(Adaptive(initial=8, maximum=1000)), queueing(capacity), seed)
            load.run(40 * 200)
            assert 0.6 * capacity <= load.usual() <= 2.5 * capacity


def test_it_backs_off_from_a_server_that_refuses() -> None:
    cases: list[int] = [1, 4, 30, 200]
    for capacity in cases:
        load = Load(AdaptiveLimit(Adaptive(initial=8, maximum=1000)), refusing(capacity))
        load.run(40 * 200)
        assert 0.5 * capacity <= load.usual() <= 1.5 * capacity + 1


def test_it_grows_only_while_there_is_enough_to_do() -> None:
    load = Load(AdaptiveLimit(Adaptive(initial=1, maximum=64)), lambda _n, _t: (1.0, False))
    load.run(3000)
    assert load.usual() == 64
    assert min(load.limits[-2000:]) > 50
    load = Load(AdaptiveLimit(Adaptive(initial=8, maximum=64)), lambda _n, _t: (1.0, False))
    load.run(2000, supply=3)
    assert load.limit.current == 8


def test_overload_cuts_the_limit_once_per_wave_and_never_below_one() -> None:
    limit = AdaptiveLimit(Adaptive(initial=100, maximum=1000))
    for _ in range(100):
        limit.observe(started=0.0, ended=1.0, overload=True, in_flight=100)
    assert limit.current == 70
    load = Load(AdaptiveLimit(Adaptive(initial=64, maximum=64)), lambda _n, _t: (0.1, True))
    load.run(2000)
    assert load.limit.current == 1
    fixed = limit_for(Fixed(5))
    fixed.observe(started=0.0, ended=1.0, overload=True, in_flight=5)
    assert fixed.current == 5


def test_it_recovers_after_an_outage() -> None:
    def server(_in_flight: int, now: float) -> tuple[float, bool]:
        return (0.1, True) if 50 < now < 100 else (1.0, False)

    load = Load(AdaptiveLimit(Adaptive(initial=16, maximum=64)), server)
    while load.now < 100:
        load.run(1)
    assert load.limit.current <= 4
    load.run(5000)
    assert load.usual() > 30


def test_it_shrinks_when_latency_grows_without_a_gain() -> None:
    def server(in_flight: int, now: float) -> tuple[float, bool]:
        capacity = 64 if now < 100 else 8
        return max(1.0, in_flight / capacity) ** (1 if now < 100 else 1.5), False

    load = Load(AdaptiveLimit(Adaptive(initial=32, maximum=64)), server)
    while load.now < 100:
        load.run(1)
    before = load.usual()
    load.run(8000)
    assert load.usual() < 0.7 * before


def test_latency_that_doubles_is_cut_at_once() -> None:
    limit = AdaptiveLimit(Adaptive(initial=32, maximum=32))
    for number in range(64):
        limit.observe(started=0.1, ended=1.0 + number / 64, overload=False, in_flight=32)
    assert limit.current in {29, 32}  # it may be trying a smaller one
    before, now = limit.current, 2.0
    for number in range(64):
        limit.observe(started=now, ended=now + 5.0 + number / 8, overload=False, in_flight=before)
    assert limit.current < before
