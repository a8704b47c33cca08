"""Whether a call tries again, and when: a rule over what it has met so far."""

from collections.abc import Sequence
from typing import NamedTuple

from rollgym.engine import Backoff
from rollgym.records import DeadlineError, ModelMalformedError
from rollgym.servers.endpoints.fault import Fault

MALFORMED_RETRIES = 1


class RetryRules(NamedTuple):
    max_retries: int
    backoff: Backoff
    max_retry_after: float

    def wait(
        self, faults: Sequence[Fault], left: float, seed: int, *, elsewhere: bool
    ) -> float | None:
        """Seconds until the next try, or None when there is to be none.

        `left` is the time until the deadline. `elsewhere` says that an endpoint is awake which this
        call has not tried: it is tried at once, also after a fault that is about one endpoint only.
        """
        latest = faults[-1]
        malformed = sum(fault.error is ModelMalformedError for fault in faults)
        if (
            not (latest.worth_retrying or (latest.local and elsewhere))
            or latest.error is DeadlineError
            or len(faults) > self.max_retries
            or malformed > MALFORMED_RETRIES
        ):
            return None
        if elsewhere:
            return 0.0
        delay = self.backoff.delay(len(faults), seed)
        asked = latest.retry_after or 0.0
        if asked > self.max_retry_after or max(delay, asked) >= left:
            return None
        return delay
