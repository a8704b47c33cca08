"""The limit on attempts in flight: pure state machines without tasks and without a clock.

`AdaptiveLimit` is a hill climber. It measures throughput over an epoch of ended attempts and then
tries another limit. A larger limit is kept if throughput grew by a fair part of the step, a smaller
one if throughput did not fall by that much. So the limit rises while that pays and falls again when
it no longer does. It doubles until a trial is first reverted; after that it takes small steps with
pauses between them. A sign of overload (rate limit, unavailable, timeout) cuts the limit at once,
but only once for all attempts that were in flight together. Latency that doubled without a gain in
throughput cuts it a little.
"""

from rollgym.engine.policy import Adaptive, Fixed

CUT_ON_OVERLOAD = 0.7
CUT_ON_LATENCY = 0.9
SLOW_LATENCY = 2.0
FAIR_GAIN = 0.25
STEP = 0.1
SHORTEST_EPOCH = 16
FIRST_PAUSE = 2
LONGEST_PAUSE = 16


class FixedLimit:
    """A constant limit."""

    def __init__(self, limit: int) -> None:
        self.current = limit

    def observe(self, *, started: float, ended: float, overload: bool, in_flight: int) -> None:
        pass


class _Epoch:
    """The ended attempts that started under the present limit."""

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
    """A limit that follows throughput; see the module."""

    def __init__(self, policy: Adaptive) -> None:
        self.current = policy.initial
        self._maximum = policy.maximum
        self._epoch: _Epoch | None = None
        self._cut_at = float("-inf")
        self._doubling = True
        self._upwards = True
        self._before_trial: tuple[int, float] | None = None
        self._pause = FIRST_PAUSE
        self._waited = 0
        self._throughput = 0.0
        self._usual_latency = float("inf")

    def observe(self, *, started: float, ended: float, overload: bool, in_flight: int) -> None:
        """Learn from one ended attempt. `in_flight` includes it."""
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
        paid = self._end_trial(throughput)
        self._usual_latency = min(latency, self._usual_latency * 1.01)
        slow = latency > SLOW_LATENCY * self._usual_latency
        if slow and not paid and throughput < self._throughput:
            self._cut(CUT_ON_LATENCY, now)
        else:
            self._waited += 1
            due = paid or self._doubling or self._waited >= self._pause
            if due and epoch.peak >= self.current:
                self._try_another(throughput)
        self._throughput = throughput
        self._epoch = _Epoch(now)

    def _try_another(self, throughput: float) -> None:
        step = self.current if self._doubling else max(1, round(STEP * self.current))
        wanted = self.current + (step if self._upwards else -step)
        wanted = max(1, min(self._maximum, wanted))
        if wanted == self.current:
            self._doubling = False
            self._upwards = not self._upwards
        else:
            self._before_trial = (self.current, throughput)
            self.current = wanted

    def _end_trial(self, throughput: float) -> bool:
        """End a trial of another limit, if there was one; return whether the new limit is kept."""
        if self._before_trial is None:
            return False
        limit, before = self._before_trial
        self._before_trial = None
        fair = 1 + FAIR_GAIN * (self.current / limit - 1)
        if throughput >= fair * before:
            self._pause = FIRST_PAUSE
            return True
        self.current = limit
        self._doubling = False
        self._upwards = not self._upwards
        self._pause = min(LONGEST_PAUSE, 2 * self._pause)
        self._waited = 0
        return False

    def _cut(self, factor: float, now: float) -> None:
        self.current = max(1, int(self.current * factor))
        self._cut_at = now
        self._doubling = False
        self._upwards = True
        self._before_trial = None
        self._pause = FIRST_PAUSE
        self._waited = 0
        self._epoch = _Epoch(now)


def limit_for(concurrency: Fixed | Adaptive) -> FixedLimit | AdaptiveLimit:
    match concurrency:
        case Fixed(limit=limit):
            return FixedLimit(limit)
        case Adaptive():
            return AdaptiveLimit(concurrency)
