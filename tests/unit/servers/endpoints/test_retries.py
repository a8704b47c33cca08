"""Whether a call tries again, and when."""

from hypothesis import given
from hypothesis import strategies as st

from rollgym.records import (
    DeadlineError,
    ModelAuthError,
    ModelMalformedError,
    ModelRateLimitError,
    ModelUnavailableError,
)
from rollgym.servers.endpoints import EndpointPoolSettings
from rollgym.servers.endpoints.failures import FailedTry, retry_wait
from tests.cases import for_each

RULES = EndpointPoolSettings(max_retries=4, backoff_initial=1.0, backoff_maximum=8.0)
LONG = 1000.0

DOWN = FailedTry(ModelUnavailableError, "is down")
ODD = FailedTry(ModelMalformedError, "is odd")


def limited(seconds: float | None) -> FailedTry:
    return FailedTry(ModelRateLimitError, "is busy", seconds)


@given(st.integers(1, 4), st.integers(0, 2**63 - 1))
def test_waits_grow_with_full_jitter_and_repeat_with_their_seed(tries: int, seed: int) -> None:
    wait = retry_wait(RULES, [DOWN] * tries, LONG, seed, elsewhere=False)
    assert wait is not None
    assert 0 <= wait <= 2 ** (tries - 1)
    assert retry_wait(RULES, [DOWN] * tries, LONG, seed, elsewhere=False) == wait


def test_the_budget_ends_the_retries_also_where_another_endpoint_is_left() -> None:
    assert retry_wait(RULES, [DOWN] * 4, LONG, 0, elsewhere=True) == 0.0
    assert retry_wait(RULES, [DOWN] * 5, LONG, 0, elsewhere=True) is None


def test_a_rejection_for_load_counts_half_in_the_budget() -> None:
    busy = limited(None)
    assert retry_wait(RULES, [busy] * 8, LONG, 0, elsewhere=False) is not None
    assert retry_wait(RULES, [busy] * 9, LONG, 0, elsewhere=False) is None
    assert retry_wait(RULES, [busy] * 4 + [DOWN] * 2, LONG, 0, elsewhere=False) is not None
    assert retry_wait(RULES, [busy] * 4 + [DOWN] * 3, LONG, 0, elsewhere=False) is None


def test_an_endpoint_that_was_not_tried_is_tried_at_once() -> None:
    assert retry_wait(RULES, [DOWN], LONG, 0, elsewhere=True) == 0.0
    assert retry_wait(RULES, [limited(3600.0)], LONG, 0, elsewhere=True) == 0.0


def test_a_malformed_answer_is_asked_for_once_more_only() -> None:
    assert retry_wait(RULES, [ODD], LONG, 0, elsewhere=False) is not None
    assert retry_wait(RULES, [ODD, DOWN, ODD], LONG, 0, elsewhere=False) is None


@for_each("kind", [ModelAuthError, DeadlineError])
def test_what_another_try_cannot_mend_is_not_tried_again(kind: type[ModelAuthError]) -> None:
    assert retry_wait(RULES, [FailedTry(kind, "is so")], LONG, 0, elsewhere=True) is None


def test_a_fault_of_one_endpoint_is_tried_at_another_and_only_there() -> None:
    refused = FailedTry(ModelAuthError, "has another key", local=True)
    assert retry_wait(RULES, [refused], LONG, 0, elsewhere=True) == 0.0
    assert retry_wait(RULES, [refused], LONG, 0, elsewhere=False) is None


def test_a_fault_may_say_itself_that_no_retry_helps() -> None:
    spent = FailedTry(ModelRateLimitError, "is spent", retryable=False)
    assert retry_wait(RULES, [spent], LONG, 0, elsewhere=True) is None


@for_each(("asked", "left", "waits"), [(60.0, LONG, True), (61.0, LONG, False), (5.0, 5.0, False)])
def test_a_wait_that_is_too_long_or_passes_the_deadline_is_the_callers_to_decide(
    asked: float, left: float, waits: bool
) -> None:
    assert (retry_wait(RULES, [limited(asked)], left, 0, elsewhere=False) is not None) is waits
