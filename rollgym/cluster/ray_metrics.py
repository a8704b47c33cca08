"""The counts of a collection as metrics of Ray, which exports them for Prometheus on every node.

Ray adds its own labels, and its dashboard shows them. The counters begin with the process, so their
rates are those of this process; a resumed run does not count again what it had.
"""

from collections.abc import Sequence
from typing import Any

from rollgym.engine import AttemptRecorded, AttemptStarted, Event
from rollgym.records import Attempt, Failed

PREFIX = "rollgym"


class RayMetrics:
    """An observer of a collection. Use it where Ray is connected."""

    name = "Ray metrics"

    def __init__(self) -> None:
        self._metrics: _Metrics | None = None

    def observe(self, events: Sequence[Event]) -> None:
        """Count a batch of events."""
        metrics = self._metrics = self._metrics or _Metrics()
        for event in events:
            match event:
                case AttemptStarted():
                    metrics.running += 1
                case AttemptRecorded():
                    metrics.add(event.attempt)
        metrics.in_flight.set(metrics.running)


class _Metrics:
    def __init__(self) -> None:
        from ray.util import metrics  # noqa: PLC0415 - only with `launcher=ray`

        def counter(name: str, what: str, *tags: str) -> Any:
            return metrics.Counter(f"{PREFIX}_{name}", description=what, tag_keys=tags)

        self.running = 0
        self.rollouts = counter("rollouts", "rollouts with an outcome", "outcome")
        self.attempts = counter("attempts", "attempts that have ended")
        self.failures = counter("failed_attempts", "attempts that failed", "kind")
        self.tokens = counter("tokens", "tokens of the policy", "direction")
        self.in_flight = metrics.Gauge(
            f"{PREFIX}_attempts_in_flight", description="attempts that are running"
        )

    def add(self, attempt: Attempt) -> None:
        outcome = attempt.outcome
        self.running = max(0, self.running - 1)
        self.attempts.inc()
        if isinstance(outcome, Failed):
            self.failures.inc(tags={"kind": str(outcome.failure.kind)})
        if attempt.final:
            self.rollouts.inc(tags={"outcome": type(outcome).__name__.lower()})
        usage = outcome.usage
        for direction, tokens in (("input", usage.input_tokens), ("output", usage.output_tokens)):
            if tokens:
                self.tokens.inc(tokens, tags={"direction": direction})
