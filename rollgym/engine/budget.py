"""The tokens and the money that a run may use.

The limits are for the whole run, so what its earlier attempts have used counts too. They may be
changed while it is collected. When a limit is reached, the collection stops as after a request to
stop: running attempts finish, so it may end a little above the limit, and the rest stays
unresolved.
"""

from rollgym.engine.policy import Policy
from rollgym.records import DOLLAR, Outcome


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
