"""Policies: bounds, backoff, and which failures are tried again."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollgym.engine import Adaptive, Backoff, Fixed, Policy, RetryPolicy, RetryRule
from rollgym.records import Failure, FailureKind


@given(
    attempt=st.integers(1, 10_000),
    seed=st.integers(0, 2**63),
    jitter=st.floats(0, 1),
    maximum=st.floats(1, 1000),
)
def test_backoff_grows_to_its_maximum_within_its_jitter(
    attempt: int, seed: int, jitter: float, maximum: float
) -> None:
    backoff = Backoff(initial=1.0, factor=2.0, maximum=maximum, jitter=jitter)
    whole = min(maximum, 2.0 ** min(attempt - 1, 64))
    delay = backoff.delay(attempt, seed)
    assert whole * (1 - jitter) <= delay <= whole
    assert backoff.delay(attempt, seed) == delay


def test_only_retryable_failures_within_their_budget_are_tried_again() -> None:
    policy = RetryPolicy(default=RetryRule(2), by_kind={FailureKind.MODEL_RATE_LIMIT: RetryRule(4)})

    def retried(kind: FailureKind, attempts: int) -> bool:
        return policy.delay(Failure.make(kind, "x"), attempts, seed=1) is not None

    assert retried(FailureKind.TOOL, 1)
    assert not retried(FailureKind.TOOL, 2)
    assert retried(FailureKind.MODEL_RATE_LIMIT, 3)
    assert not retried(FailureKind.MODEL_RATE_LIMIT, 4)
    assert not retried(FailureKind.TASK, 1)
    assert not retried(FailureKind.INTERNAL, 1)


def test_a_wait_that_was_asked_for_is_kept_or_ends_the_rollout() -> None:
    cases: list[tuple[float, float | None]] = [(0.001, 0.5), (20.0, 20.0), (301.0, None)]
    for asked, waits in cases:
        policy = RetryPolicy(default=RetryRule(3, Backoff(initial=0.5, jitter=0.0)), by_kind={})
        failure = Failure.make(FailureKind.MODEL_RATE_LIMIT, "slow down", retry_after=asked)
        assert policy.delay(failure, 1, seed=1) == waits


def test_a_policy_without_bounds_is_refused() -> None:
    cases: list[dict[str, Any]] = [
        {"attempt_timeout": 0},
        {"attempt_timeout": math.inf},
        {"rollout_timeout": math.nan},
        {"drain_timeout": -1},
        {"cancel_grace": math.inf},
        {"completion_threshold": 0},
        {"completion_threshold": 1.1},
        {"max_abandoned": -1},
    ]
    for change in cases:
        with pytest.raises(ValueError, match=next(iter(change))):
            Policy(**change)


def test_impossible_parts_of_a_policy_are_refused() -> None:
    cases: list[Any] = [
        lambda: Fixed(0),
        lambda: Adaptive(initial=0),
        lambda: Adaptive(initial=9, maximum=8),
        lambda: RetryRule(0),
        lambda: Backoff(initial=-1),
        lambda: Backoff(factor=0.5),
        lambda: Backoff(jitter=2),
    ]
    for make in cases:
        with pytest.raises(ValueError, match="the policy requires"):
            make()
