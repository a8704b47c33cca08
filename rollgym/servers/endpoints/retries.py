"""Whether a call of an endpoint pool tries again, and when: a pure function of its failures.

A rejection because of a rate limit counts half in the budget. It cost the endpoint nothing, while
giving up costs the whole rollout around the call. Where an endpoint is saturated and its queue is
full, many calls are rejected several times in a row.
"""

from collections.abc import Sequence

from rollgym.engine import Backoff
from rollgym.records import DeadlineError, ModelMalformedError, ModelRateLimitError
from rollgym.servers.endpoints.failures import FailedTry
from rollgym.servers.endpoints.settings import EndpointPoolSettings

MALFORMED_RETRIES = 1
WEIGHT_OF_REJECTION = 0.5
"""What a failure with a rate limit counts in the budget of retries."""


def retry_wait(
    settings: EndpointPoolSettings,
    failures: Sequence[FailedTry],
    left: float,
    seed: int,
    *,
    elsewhere: bool,
) -> float | None:
    """Seconds until the next try of a call, or None for no further try.

    `left` is the time until the deadline. `elsewhere` says that an endpoint is available that this
    call has not tried: it is tried at once, also after a failure that concerns one endpoint only.
    """
    latest = failures[-1]
    rejected = sum(failed.error is ModelRateLimitError for failed in failures)
    spent = len(failures) - rejected * (1 - WEIGHT_OF_REJECTION)
    malformed = sum(failed.error is ModelMalformedError for failed in failures)
    if (
        not (latest.worth_retrying or (latest.local and elsewhere))
        or latest.error is DeadlineError
        or spent > settings.max_retries
        or malformed > MALFORMED_RETRIES
    ):
        return None
    if elsewhere:
        return 0.0
    backoff = Backoff(settings.backoff_initial, maximum=settings.backoff_maximum, jitter=1.0)
    delay = backoff.delay(len(failures), seed)
    asked = latest.retry_after or 0.0
    if asked > settings.max_retry_after or max(delay, asked) >= left:
        return None
    return delay
