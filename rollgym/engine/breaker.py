"""Recognising a collection in which nothing but one failure comes back.

With a wrong key, a model that is gone or an environment that cannot start, every rollout fails in
the same way, and going on would only fail the whole dataset. So after a number of rollouts in a row
that failed alike, with no other outcome in between, the collection stops. What failed is recorded,
the rest stays unresolved and runs when the collection is continued.

*Alike.* Failures of the endpoint as a whole are alike when their kind is; others must also say the
same, apart from words with digits, such as numbers, ports and identifiers.
"""

import re

from rollgym.records import TRAITS, Completed, Failed, Failure, FailureKind, OmitReason, Outcome

SHOWN_DETAIL = 300
_COMPARED = 500
_WITH_DIGITS = re.compile(r"\w*\d\w*")
_BY_KIND = frozenset(
    (
        FailureKind.MODEL_AUTH,
        FailureKind.MODEL_UNAVAILABLE,
        FailureKind.MODEL_RATE_LIMIT,
        FailureKind.BROWSER_UNAVAILABLE,
    )
)
_REMEDIES = {
    FailureKind.MODEL_RATE_LIMIT: "run fewer rollouts at a time, or ask for a higher limit",
    FailureKind.MODEL_UNAVAILABLE: "check that the model's server runs and that its address is "
    "right",
    FailureKind.MODEL_MALFORMED: "check that the address is that of an endpoint of this kind",
    FailureKind.MODEL_REQUEST: "check the name of the model and the parameters of the request",
    FailureKind.MODEL_CONTEXT: "use a model with a larger context, or shorter tasks",
    FailureKind.MODEL_AUTH: "check the key of the model endpoint",
    FailureKind.TOOL: "check the server of the tools",
    FailureKind.ENVIRONMENT: "check that the environment's server runs and can start a session",
    FailureKind.VERIFIER: "check the verifier",
    FailureKind.BROWSER: "check the browser server",
    FailureKind.BROWSER_UNAVAILABLE: "check that the browser server runs and has free sessions",
    FailureKind.AGENT: "check the agent",
    FailureKind.TASK: "check that the rows are made for this environment",
    FailureKind.TIMEOUT: "give rollouts more time, or find out what they wait for",
}


class Breaker:
    """Counts failures in a row. `reason` is set when there were too many."""

    def __init__(self, limit: int) -> None:
        """`limit` is the number of failures that stops a collection; 0 means any number."""
        self.reason: str | None = None
        self._limit = limit
        self._last: tuple[FailureKind, str] | None = None
        self._count = 0

    def note(self, outcome: Outcome) -> None:
        """Count the outcome of a rollout."""
        match outcome:
            case Failed(failure=failure):
                self._note_failure(failure)
            case Completed():
                self._last = None
            case _ if outcome.reason is not OmitReason.STRAGGLER:
                self._last = None

    def _note_failure(self, failure: Failure) -> None:
        signature = _signature(failure)
        self._count = self._count + 1 if signature == self._last else 1
        self._last = signature
        if self._limit and self._count >= self._limit and self.reason is None:
            self.reason = _describe(failure, self._count)


def _signature(failure: Failure) -> tuple[FailureKind, str]:
    if failure.kind in _BY_KIND:
        return failure.kind, ""
    return failure.kind, _WITH_DIGITS.sub("#", failure.detail[:_COMPARED])


def _describe(failure: Failure, count: int) -> str:
    meaning = TRAITS[failure.kind].meaning
    detail = " ".join(failure.detail[:SHOWN_DETAIL].split())
    remedy = _REMEDIES.get(failure.kind, "see the traceback in the record")
    return (
        f"{count} rollouts in a row failed alike ({failure.kind}: {meaning}), for example with: "
        f"{detail}. What to do: {remedy}"
    )
