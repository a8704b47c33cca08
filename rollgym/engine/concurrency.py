"""How many attempts may be in flight: pure state machines that own no tasks and no clock.

`AdaptiveLimit` climbs. It measures throughput over an epoch of ended attempts, tries a larger
limit, and keeps it only if throughput grew by a fair part of the step; otherwise it returns and
waits before the next try. Up to the first refusal it doubles, after that it takes small steps. A
sign of overload (rate limit, unavailable, timeout) cuts the limit at once, and once only for all
the attempts that were in flight together. Latency that doubled without a gain in throughput cuts it
a little.
"""

from typing import Protocol

from rollgym.engine.policy import Adaptive, Fixed

CUT_ON_OVERLOAD = 0.7
CUT_ON_LATENCY = 0.9
SLOW_LATENCY = 2.0
FAIR_GAIN = 0.25
STEP = 0.1
SHORTEST_EPOCH = 16
FIRST_PATIENCE = 2
LONGEST_PATIENCE = 16


class Limit(Protocol):
    """A number that may change with every ended attempt."""

    @property
    def current(self) -> int: ...

    def observe(self, *, started: float, ended: float, overload: bool, in_flight: int) -> None:
        """Take in one ended attempt. `in_flight` counts it too."""


class FixedLimit:
    """Learns nothing."""

    def __init__(self, limit: int) -> None:
        self.current = limit

    def observe(self, *, started: float, ended: float, overload: bool, in_flight: int) -> None:
        pass


class _Epoch:
    """Ended attempts that began under the present limit."""

    def __init__(self, began: float) -> None:
        self.began = began
        self.ended = 0
        self.latency = 0.0
        self.peak = 0

    def add(self, latency: float, in_flight: int) -> None:
        self.ended += 1
        self.latency += latency
        self.peak = max(self.peak, in_flight)


class AdaptiveLimit:
    """Raises the limit while that pays; see the module."""

    def __init__(self, policy: Adaptive) -> None:
        self.current = policy.initial
        self._maximum = policy.maximum
        self._epoch: _Epoch | None = None
        self._cut_at = float("-inf")
        self._doubling = True
        self._before_trial: tuple[int, float] | None = None
        self._patience = FIRST_PATIENCE
        self._waited = 0
        self._throughput = 0.0
        self._calm_latency = float("inf")

    def observe(self, *, started: float, ended: float, overload: bool, in_flight: int) -> None:
        """Take in one ended attempt."""
        if overload:
            if started >= self._cut_at:
                self._cut(CUT_ON_OVERLOAD, ended)
            return
        if self._epoch is None:
            self._epoch = _Epoch(started)
        if started < self._epoch.began:
            return
        self._epoch.add(ended - started, in_flight)
        if self._epoch.ended >= max(SHORTEST_EPOCH, 2 * self.current) and ended > self._epoch.began:
            self._close(self._epoch, ended)

    def _close(self, epoch: _Epoch, now: float) -> None:
        throughput = epoch.ended / (now - epoch.began)
        latency = epoch.latency / epoch.ended
        gained = self._judge_trial(throughput)
        self._calm_latency = min(latency, self._calm_latency * 1.01)
        slow = latency > SLOW_LATENCY * self._calm_latency
        if slow and not gained and throughput < self._throughput:
            self._cut(CUT_ON_LATENCY, now)
        elif self._may_try(epoch, gained=gained):
            self._before_trial = (self.current, throughput)
            step = self.current if self._doubling else max(1, round(STEP * self.current))
            self.current = min(self._maximum, self.current + step)
        self._throughput = throughput
        self._epoch = _Epoch(now)

    def _judge_trial(self, throughput: float) -> bool:
        """Whether a larger limit was tried and paid."""
        if self._before_trial is None:
            return False
        limit, before = self._before_trial
        self._before_trial = None
        wanted = 1 + FAIR_GAIN * (self.current / limit - 1)
        if throughput >= wanted * before:
            self._patience = FIRST_PATIENCE
            return True
        self.current = limit
        self._doubling = False
        self._patience = min(LONGEST_PATIENCE, 2 * self._patience)
        self._waited = 0
        return False

    def _may_try(self, epoch: _Epoch, *, gained: bool) -> bool:
        if epoch.peak < self.current or self.current >= self._maximum:
            return False
        self._waited += 1
        return gained or self._doubling or self._waited >= self._patience

    def _cut(self, factor: float, now: float) -> None:
        self.current = max(1, int(self.current * factor))
        self._cut_at = now
        self._doubling = False
        self._before_trial = None
        self._waited = 0
        self._epoch = _Epoch(now)


def limit_for(concurrency: Fixed | Adaptive) -> Limit:
    match concurrency:
        case Fixed(limit=limit):
            return FixedLimit(limit)
        case Adaptive():
            return AdaptiveLimit(concurrency)
