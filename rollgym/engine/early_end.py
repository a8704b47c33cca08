"""Ending a collection before every rollout has an outcome.

*Stopping.* A request, an error of the source, a used-up budget, the deadline of the run and
failures that repeat stop a collection: nothing more starts, and running attempts may finish within
`drain_timeout`. A second request ends them at once.

*Failures that repeat.* With a wrong key, a model that is gone or an environment that cannot start,
every rollout fails in the same way, and going on would only fail the whole dataset. So after a
number of rollouts in a row that failed alike, with no other outcome in between, the collection
stops. What failed is recorded, the rest stays unresolved and runs when the collection is continued.
Failures of the endpoint as a whole are alike when their kind is; others must also say the same,
apart from words with digits, such as numbers, ports and identifiers.

*Budget.* The limits of tokens and money are for the whole run, so what its earlier attempts have
used counts too, and they may be changed while it is collected. Running attempts finish, so a run
may end a little above its limits.

*Stragglers.* When a share of the rollouts (`completion_threshold`) has outcomes, the others get
`completion_grace_period` to finish; then they are omitted.

This module decides; the loop of the collection cancels and omits.
"""

import asyncio
import re
from collections.abc import Callable

from rollgym.engine.coverage import Ledger, describe_time
from rollgym.engine.observers import Observers, StopRequested
from rollgym.engine.policy import Policy
from rollgym.engine.stop import Stop, StopLevel
from rollgym.engine.work import SourceError
from rollgym.records import (
    DOLLAR,
    TRAITS,
    Completed,
    Failed,
    Failure,
    FailureKind,
    OmitReason,
    Outcome,
)
from rollgym.store import Progress

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
CLOCK_CHECK = 30.0


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


class Budget:
    """Counts what attempts use. `reason` is set when a limit is reached."""

    def __init__(self, policy: Policy, tokens: int, cost: int) -> None:
        """`tokens` and `cost` (in picodollars) are what the run has used already."""
        self.reason: str | None = None
        self.tokens = tokens
        self.cost = cost
        self.set_limits(policy.max_tokens, policy.max_cost)

    def set_limits(self, max_tokens: int | None, max_cost: float | None) -> None:
        """Set the limits; the cost is in dollars."""
        self.max_tokens = max_tokens
        self._max_cost = None if max_cost is None else round(max_cost * DOLLAR)
        self._check()

    def note(self, outcome: Outcome) -> None:
        """Count an attempt, whose calls have their prices."""
        self.tokens += outcome.tokens
        self.cost += outcome.cost
        self._check()

    def _check(self) -> None:
        self.reason = None
        if self.max_tokens is not None and self.tokens >= self.max_tokens:
            self.reason = (
                f"the run has used {self.tokens:,} tokens, and its limit (max_tokens) is "
                f"{self.max_tokens:,}. What to do: raise the limit"
            )
        elif self._max_cost is not None and self.cost >= self._max_cost:
            self.reason = (
                f"the run has cost ${self.cost / DOLLAR:,.4f}, and its limit (max_cost) is "
                f"${self._max_cost / DOLLAR:,.4f}. What to do: raise the limit"
            )


class EarlyEnd:
    """Whether and how one collection ends early. `grace_over`: the stragglers are to be omitted."""

    def __init__(
        self,
        policy: Policy,
        stop: Stop,
        ledger: Ledger,
        progress: Progress,
        *,
        observers: Observers,
        wake: Callable[[], None],
        wall_clock: Callable[[], float],
    ) -> None:
        """`wake` is called when time has changed what is to be done."""
        self.source_error: SourceError | None = None
        self.grace_over = False
        self._policy = policy
        self._stop = stop
        self._ledger = ledger
        self._observers = observers
        self._wake = wake
        self._wall_clock = wall_clock
        self._breaker = Breaker(policy.max_same_failures)
        self.budget = Budget(policy, progress.tokens, progress.cost)
        self._deadline_timer: asyncio.TimerHandle | None = None
        self._drain_timer: asyncio.TimerHandle | None = None
        self._drain_over = False
        self._grace_timer: asyncio.TimerHandle | None = None

    @property
    def stopping(self) -> bool:
        """Whether no further attempt may start."""
        return bool(self._stop.level or self.source_error)

    def start(self) -> None:
        """Check what earlier collections of the run have reached already."""
        self.check_threshold()
        self._check_budget()

    def set_budget(self, max_tokens: int | None, max_cost: float | None) -> None:
        """Change the limits of the run's budget."""
        self.budget.set_limits(max_tokens, max_cost)
        self._check_budget()

    def set_deadline(self, deadline: float | None) -> None:
        """Stop at this time of the wall clock; None for never."""
        if self._deadline_timer is not None:
            self._deadline_timer.cancel()
            self._deadline_timer = None
        if deadline is not None:
            self._watch_deadline(deadline)

    def _watch_deadline(self, deadline: float) -> None:
        """Look at the wall clock, and again later: it may be set while the timer runs."""
        left = deadline - self._wall_clock()
        if left > 0:
            self._deadline_timer = asyncio.get_running_loop().call_later(
                min(left, CLOCK_CHECK), self._watch_deadline, deadline
            )
        elif not self._stop.level:
            self._stop.give_up(
                f"the deadline of the run has passed ({describe_time(deadline)}). What to do: "
                "continue it with a later one, or without"
            )

    def note_attempt(self, outcome: Outcome) -> None:
        """Count what an attempt used."""
        self.budget.note(outcome)
        if self.budget.reason:
            self._check_budget()

    def note_outcome(self, outcome: Outcome) -> None:
        """Look for failures that repeat, in the outcome of a rollout."""
        self._breaker.note(outcome)
        if self._breaker.reason and not self._stop.level:
            self._stop.give_up(self._breaker.reason)

    def check_threshold(self) -> None:
        """Begin the grace period when enough rollouts have outcomes."""
        threshold = self._policy.completion_threshold
        if threshold >= 1 or self._grace_timer is not None:
            return
        if self._ledger.resolved / max(1, self._ledger.expected) >= threshold:
            loop = asyncio.get_running_loop()
            self._grace_timer = loop.call_later(
                self._policy.completion_grace_period, self._end_grace
            )

    def drain(self, running: int) -> bool:
        """Return whether running attempts must end at once; the first call starts their time."""
        if self._drain_timer is None:
            rollouts = f"{running} running rollout{'s' * (running != 1)}"
            requested = f"Stopping after {rollouts}. Press Ctrl-C again to stop now."
            why = self.source_error or self._stop.reason or requested
            self._observers.put(StopRequested(str(why)))
            loop = asyncio.get_running_loop()
            self._drain_timer = loop.call_later(self._policy.drain_timeout, self._end_draining)
        return self._drain_over or self._stop.level is StopLevel.NOW

    def close(self) -> None:
        for timer in (self._drain_timer, self._grace_timer, self._deadline_timer):
            if timer is not None:
                timer.cancel()

    def _check_budget(self) -> None:
        if self.budget.reason and not self._stop.level:
            self._stop.give_up(self.budget.reason)

    def _end_grace(self) -> None:
        self.grace_over = True
        self._observers.put(
            StopRequested("Enough rollouts are done; the others are omitted as stragglers.")
        )
        self._wake()

    def _end_draining(self) -> None:
        self._drain_over = True
        self._wake()
