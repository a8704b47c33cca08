"""The settings of a collection: concurrency, deadlines, retries, and when to stop."""

import math
from random import Random

import msgspec

from rollgym.records import Failure, FailureKind, Prices

MOST_CRASHES = 2
"""How often a rollout may freeze or kill the process: nothing changes this (see `suspects`)."""


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(f"the policy requires {what}")


class Backoff(msgspec.Struct, frozen=True):
    """Waits before retries, in seconds, that grow by `factor` up to `maximum`.

    `jitter` is the random part of a wait: with 0.5 it lasts between half and all of the time.
    """

    initial: float = 1.0
    factor: float = 2.0
    maximum: float = 60.0
    jitter: float = 0.5

    def __post_init__(self) -> None:
        _require(self.initial >= 0 and self.maximum >= self.initial, "0 <= initial <= maximum")
        _require(self.factor >= 1, "a factor of at least 1")
        _require(0 <= self.jitter <= 1, "a jitter from 0 to 1")

    def delay(self, attempt: int, seed: int) -> float:
        """The wait after the `attempt`-th attempt; the same for the same seed."""
        growth = self.factor ** min(attempt - 1, 64)
        return min(self.maximum, self.initial * growth) * (1 - self.jitter * Random(seed).random())  # noqa: S311


class RetryRule(msgspec.Struct, frozen=True):
    """The most attempts at a rollout that fails with a kind, and the waits between them."""

    max_attempts: int = 3
    backoff: Backoff = Backoff()

    def __post_init__(self) -> None:
        _require(self.max_attempts >= 1, "at least 1 attempt")


def _default_rules() -> dict[FailureKind, RetryRule]:
    return {
        FailureKind.MODEL_RATE_LIMIT: RetryRule(8),
        FailureKind.MODEL_UNAVAILABLE: RetryRule(6),
        FailureKind.BROWSER_UNAVAILABLE: RetryRule(8),
        FailureKind.TIMEOUT: RetryRule(2),
        FailureKind.WORKER: RetryRule(5),
        FailureKind.CRASH: RetryRule(MOST_CRASHES),
    }


class RetryPolicy(msgspec.Struct, frozen=True):
    """Which failures are retried, and how often.

    Only retryable failures are retried. The kind of the latest failure selects the rule, and all
    attempts of the rollout count against it. A `Retry-After` longer than `max_retry_after` ends
    the rollout. `max_retries` bounds the retries of the whole collection.
    """

    default: RetryRule = RetryRule()
    by_kind: dict[FailureKind, RetryRule] = msgspec.field(default_factory=_default_rules)
    max_retry_after: float = 300.0
    max_retries: int | None = None

    def delay(self, failure: Failure, attempts: int, seed: int) -> float | None:
        """The wait in seconds after `attempts` attempts; None when there is no retry."""
        rule = self.by_kind.get(failure.kind, self.default)
        asked = max(0.0, failure.retry_after or 0.0)
        if not failure.retryable or attempts >= rule.max_attempts or asked > self.max_retry_after:
            return None
        return max(asked, rule.backoff.delay(attempts, seed))


NO_RETRIES = RetryPolicy(default=RetryRule(1), by_kind={})


class Fixed(msgspec.Struct, frozen=True, tag="fixed"):
    """Run up to `limit` attempts at a time."""

    limit: int

    def __post_init__(self) -> None:
        _require(self.limit >= 1, "a limit of at least 1")


class Adaptive(msgspec.Struct, frozen=True, tag="adaptive"):
    """Find the number of attempts in flight, from 1 to `maximum`, with the most throughput."""

    initial: int = 8
    maximum: int = 512

    def __post_init__(self) -> None:
        _require(1 <= self.initial <= self.maximum, "1 <= initial <= maximum")


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of one collection. Times are in seconds, and all are finite.

    - `attempt_timeout`, `rollout_timeout`: the longest duration of one attempt, and of a rollout
      with all its attempts and the waits between them.
    - `completion_threshold`, `completion_grace_period`: once this part of the expected rollouts has
      an outcome, the others have this long to finish and are then omitted as stragglers. 1.0 turns
      this off.
    - `drain_timeout`: how long running attempts may continue after the first request to stop.
    - `cancel_grace`: how long a cancelled worker may take to end before it is abandoned.
    - `max_abandoned`: how many abandoned workers may be alive before the collection stops.
    - `max_same_failures`: after how many rollouts in a row that failed alike the collection stops;
      0 turns this off (see `early_end`).
    - `refills`: how often rollouts of one task that failed or were omitted are run again, so that
      the group becomes complete (see `refill`).
    - `max_tokens`, `max_cost`: how many tokens, and how many dollars, the whole run may use (see
      `budget`). `prices` gives the calls of models their costs.
    """

    concurrency: Fixed | Adaptive = Adaptive()
    retry: RetryPolicy = RetryPolicy()
    attempt_timeout: float = 1800.0
    rollout_timeout: float = 7200.0
    completion_threshold: float = 1.0
    completion_grace_period: float = 120.0
    drain_timeout: float = 60.0
    cancel_grace: float = 10.0
    max_abandoned: int = 1000
    max_same_failures: int = 25
    refills: int = 0
    max_tokens: int | None = None
    max_cost: float | None = None
    prices: Prices = Prices()

    def __post_init__(self) -> None:
        for name in ("attempt_timeout", "rollout_timeout"):
            seconds = getattr(self, name)
            _require(math.isfinite(seconds) and seconds > 0, f"{name} finite and above 0")
        for name in ("completion_grace_period", "drain_timeout", "cancel_grace"):
            seconds = getattr(self, name)
            _require(math.isfinite(seconds) and seconds >= 0, f"{name} finite and at least 0")
        _require(0 < self.completion_threshold <= 1, "completion_threshold above 0, at most 1")
        _require(self.max_abandoned >= 0, "max_abandoned at least 0")
        _require(self.max_same_failures >= 0, "max_same_failures at least 0")
        _require(self.refills >= 0, "refills at least 0")
        check_budget(self.max_tokens, self.max_cost, self.prices)


def check_budget(max_tokens: int | None, max_cost: float | None, prices: Prices) -> None:
    """Raises ValueError for a budget that cannot be kept."""
    for name, limit in (("max_tokens", max_tokens), ("max_cost", max_cost)):
        _require(limit is None or 0 < limit < math.inf, f"{name} finite and above 0")
    if max_cost is not None and not prices.by_model:
        raise ValueError("a limit on cost (max_cost) needs prices, and the collection has none")
