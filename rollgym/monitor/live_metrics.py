"""The metrics of a run, live or recounted from its files.

The same class counts the events of a collection, the existing records of a resumed run (`replay`),
and the records of a run on disk (`recount`), so all three give the same numbers.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from rollgym.engine import AttemptRecorded, CollectionEnded, Coverage, Event, RolloutsReopened
from rollgym.metrics import Metrics, Summary
from rollgym.records import Attempt, Completed, Failed, FailureKind, RecordState, RolloutKey
from rollgym.records.failure import cut_text
from rollgym.records.sign import Sign, signs_among
from rollgym.store import InputsIdentity, run_records

LINE_LIMIT = 160


def printable_line(text: str, limit: int = LINE_LIMIT) -> str:
    """Make foreign text safe for one line of a terminal.

    Failure details carry text of models, web pages and servers. Escape sequences in it could move
    the cursor, set the window's title or hide text, so unprintable characters become `\\ufffd`.
    Runs of white space become one space.
    """
    # A detail may have thousands of characters; those far beyond the limit are never shown.
    words = " ".join(text[: 4 * limit].split())
    return cut_text("".join(char if char.isprintable() else "\ufffd" for char in words), limit)


def held_line(reasons: Sequence[str]) -> str | None:
    """A line about a collection that starts nothing for these reasons; None without any."""
    return printable_line(f"Waiting: {'; '.join(reasons)}.") if reasons else None


class FailureExample(NamedTuple):
    """One failed rollout, as an example of its kind of failure."""

    key: RolloutKey
    detail: str
    place: str = ""
    """The line of a plug-in where an exception was raised that was not meant."""

    def __str__(self) -> str:
        return f"{self.key}: {self.detail}" + (f" ({self.place})" if self.place else "")


class LiveMetrics:
    """An observer that owns a `Metrics` and keeps an example of each kind of failure and each sign.

    `retried` counts attempts that were not their rollout's last. `reopened` counts the outcomes
    that are about to be replaced. `finished` says that the last event was received; check
    it before showing the numbers as final, because a slow observer may have been abandoned.
    """

    name = "metrics"

    def __init__(self) -> None:
        self.retried = 0
        self.reopened = 0
        self.finished = False
        self.examples: dict[FailureKind, FailureExample] = {}
        self.retried_examples: dict[FailureKind, FailureExample] = {}
        self.sign_examples: dict[Sign, RolloutKey] = {}
        self._metrics = Metrics()

    def replay(self, attempt: Attempt, state: RecordState) -> None:
        """Count an existing record; pass this method to `open_run`."""
        self._metrics.add(attempt, state)
        self.retried += not attempt.final
        self.reopened += state is RecordState.REOPENED
        if state is not RecordState.SUPERSEDED:
            self._keep_example(attempt)

    def observe(self, events: Sequence[Event]) -> None:
        """Count recorded attempts; other events are ignored."""
        for event in events:
            match event:
                case AttemptRecorded():
                    self._record(event)
                case RolloutsReopened(count=count):
                    self.reopened += count
                case CollectionEnded():
                    self.finished = True
                case _:
                    pass

    def summary(self) -> Summary:
        return self._metrics.summary()

    def _record(self, event: AttemptRecorded) -> None:
        attempt = event.attempt
        if event.replaced is not None:
            self._metrics.retract(event.replaced, attempt)
            self.reopened -= 1
            if isinstance(event.replaced, Failed):
                self._drop_example(event.replaced.failure.kind, attempt.key)
        self._metrics.add(attempt)
        self.retried += not attempt.final
        self._keep_example(attempt)

    def _keep_example(self, attempt: Attempt) -> None:
        """Keep the rollout of each kind, and of each sign, that comes first in the inputs."""
        outcome = attempt.outcome
        if isinstance(outcome, Completed):
            for sign in signs_among(outcome.measures):
                self.sign_examples[sign] = min(
                    attempt.key, self.sign_examples.get(sign, attempt.key)
                )
            return
        if not isinstance(outcome, Failed):
            return
        examples = self.examples if attempt.final else self.retried_examples
        failure, known = outcome.failure, examples.get(outcome.failure.kind)
        if known is None or attempt.key < known.key:
            place = f"{failure.file}:{failure.line}" if failure.file else ""
            examples[failure.kind] = FailureExample(
                attempt.key, printable_line(failure.detail), printable_line(place)
            )

    def _drop_example(self, kind: FailureKind, key: RolloutKey) -> None:
        known = self.examples.get(kind)
        if known is not None and known.key == key:
            del self.examples[kind]


def recount(directory: Path, includes: Callable[[int], bool] | None = None) -> LiveMetrics:
    """Count every record of a run, or of the tasks whose index `includes` accepts.

    It needs no locks and also works while the run is being written. Raises
    RefusedError, StorageError.
    """
    metrics = LiveMetrics()
    for entry, current in run_records(directory):
        if includes is None or includes(entry.attempt.task):
            state = RecordState.CURRENT if current else RecordState.SUPERSEDED
            metrics.replay(entry.attempt, state)
    return metrics


def coverage_of(inputs: InputsIdentity, summary: Summary) -> Coverage:
    """The coverage of a whole run, as a collection with nothing left to do would report it."""
    counts = summary.counts
    return Coverage(
        expected=inputs.rollouts,
        completed=counts.completed,
        failed=counts.failed,
        omitted=counts.omitted,
        groups=inputs.tasks,
        groups_complete=summary.groups.complete,
        resumed=counts.completed + counts.failed + counts.omitted,
        attempts=0,
        abandoned=0,
        dropped_events={},
    )
