"""Ending a collection before every rollout has an outcome.

*Stopping.* A request, an error of the source, a used-up budget, the deadline of the run and
failures that repeat stop a collection: nothing more starts, and running attempts may finish within
`drain_timeout`. A second request ends them at once.

*Budget.* The limits of tokens and money are for the whole run, so what its earlier attempts have
used counts too, and they may be changed while it is collected. Running attempts finish, so a run
may end a little above its limits.

*Stragglers.* When a share of the rollouts (`completion_threshold`) has outcomes, the others get
`completion_grace_period` to finish; then they are omitted.

This module decides; the loop of the collection cancels and omits.
"""

import asyncio
from collections.abc import Callable

from rollgym.engine.breaker import Breaker
from rollgym.engine.coverage import Ledger
from rollgym.engine.observers import Observers, StopRequested
from rollgym.engine.policy import Policy
from rollgym.engine.status import describe_time
from rollgym.engine.stop import Stop, StopLevel
from rollgym.engine.work import SourceError
from rollgym.records import DOLLAR, Outcome
from rollgym.store import Progress

CLOCK_CHECK = 30.0


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
