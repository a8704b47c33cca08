"""Whether an endpoint should be asked: a state machine that owns no task and no clock.

*Rest.* After so many failures in a row the endpoint rests. When the rest is over, one request
probes it; the next probe may follow after another rest, for the answer of a model can take minutes.
A probe that fails makes the rest longer, up to a bound. Any success ends the rest, also that of a
request which began before it: whatever answers is alive.

*Pause.* An endpoint that says how long to stay away is left alone for so long, up to a bound, and
then used as before. Successes that were already on their way change nothing about that.

A failure counts only if its request began after the latest rest did. Five hundred requests that a
dying server takes with it are one piece of news.
"""

from typing import NamedTuple

from rollgym.engine import Backoff


class HealthRules(NamedTuple):
    failures_before_rest: int
    rest: Backoff
    longest_pause: float


class Health:
    """The health of one endpoint. All times are of the one clock that the caller reads."""

    __slots__ = ("_failures", "_paused_until", "_rest_began", "_rested_until", "_rests", "_rules")

    def __init__(self, rules: HealthRules) -> None:
        self._rules = rules
        self._failures = 0
        self._rests = 0
        self._rest_began = float("-inf")
        self._rested_until = float("-inf")
        self._paused_until = float("-inf")

    @property
    def resting(self) -> bool:
        """Failures keep it from being used for anything but probes."""
        return self._rests > 0

    @property
    def wakes_at(self) -> float:
        """From when on it may be asked; a time that has passed where nothing keeps it."""
        return max(self._rested_until, self._paused_until)

    def begin(self, now: float) -> None:
        """A request goes out. At an endpoint that rests it is a probe, and holds back the next."""
        if self._rests:
            self._rested_until = now + self._rest_length()

    def succeeded(self) -> None:
        if self._failures or self._rests:
            self._failures = self._rests = 0
            self._rested_until = float("-inf")

    def failed(self, now: float, began: float) -> None:
        """A request that went out at `began` failed by the endpoint's fault."""
        if began <= self._rest_began:
            return
        self._failures += 1
        if self._failures >= self._rules.failures_before_rest:
            self._rests += 1
            self._rest_began = now
            self._rested_until = now + self._rest_length()

    def pause(self, now: float, seconds: float) -> None:
        """The endpoint asked to be left alone; asked twice, the later end holds."""
        until = now + min(seconds, self._rules.longest_pause)
        self._paused_until = max(self._paused_until, until)

    def _rest_length(self) -> float:
        return self._rules.rest.delay(self._rests, seed=0)
