"""A run's numbers while they come in.

The same object counts events of a collection, the records a resumed run finds (`replay`), and the
records of a finished run on disk (see `recount`), so all three come to the same numbers.
"""

from collections.abc import Sequence
from typing import NamedTuple

from rollgym.engine import AttemptRecorded, CollectionEnded, Event
from rollgym.metrics import Metrics, Summary
from rollgym.monitor.printable import printable_line
from rollgym.records import Attempt, Failed, FailureKind, RecordState, RolloutKey


class FailureExample(NamedTuple):
    """One failed rollout, to show what its kind looked like this time."""

    key: RolloutKey
    detail: str


class LiveMetrics:
    """An observer that owns a `Metrics` and keeps an example of each kind of failure.

    `retried` counts attempts that were not their rollout's last. `reopened` counts the ends that a
    resumed run is about to replace. `finished` says that the last event was seen; whoever shows the
    numbers as final must ask, because a slow observer may be left behind.
    """

    name = "metrics"

    def __init__(self) -> None:
        self.retried = 0
        self.reopened = 0
        self.finished = False
        self.examples: dict[FailureKind, FailureExample] = {}
        self.retried_examples: dict[FailureKind, FailureExample] = {}
        self._metrics = Metrics()

    def replay(self, attempt: Attempt, standing: RecordState) -> None:
        """Count a record that is on disk already; to be given to `open_run`."""
        self._metrics.add(attempt, standing)
        self.retried += not attempt.final
        self.reopened += standing is RecordState.REOPENED
        if standing is not RecordState.SUPERSEDED:
            self._keep_example(attempt)

    def observe(self, events: Sequence[Event]) -> None:
        """Count what was recorded; every other event passes by."""
        for event in events:
            match event:
                case AttemptRecorded():
                    self._record(event)
                case CollectionEnded():
                    self.finished = True
                case _:
                    pass

    def summary(self) -> Summary:
        return self._metrics.summary()

    def _record(self, event: AttemptRecorded) -> None:
        attempt = event.attempt
        if event.replaced is not None:
            self._metrics.retract(event.replaced)
            self.reopened -= 1
            if isinstance(event.replaced, Failed):
                self._drop_example(event.replaced.failure.kind, attempt.key)
        self._metrics.add(attempt)
        self.retried += not attempt.final
        self._keep_example(attempt)

    def _keep_example(self, attempt: Attempt) -> None:
        """Of each kind, the rollout that comes first in the inputs."""
        outcome = attempt.outcome
        if not isinstance(outcome, Failed):
            return
        examples = self.examples if attempt.final else self.retried_examples
        failure, known = outcome.failure, examples.get(outcome.failure.kind)
        if known is None or attempt.key < known.key:
            examples[failure.kind] = FailureExample(attempt.key, printable_line(failure.detail))

    def _drop_example(self, kind: FailureKind, key: RolloutKey) -> None:
        known = self.examples.get(kind)
        if known is not None and known.key == key:
            del self.examples[kind]
