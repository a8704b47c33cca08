"""The aggregate of a run's attempt records.

The same records give the same summary, bit for bit, in whatever order they come and however they
are split: in a live run, a resumed one, a merge of shards, a recount from disk. Each part is a
commutative monoid, made of integers, exact sums, sets and extremes, and rounding is left to the
summary. Memory is bounded by the open groups, the hours of the run and the kinds of numbers, not by
the records.
"""

from collections import Counter
from enum import StrEnum
from typing import Self, TypeVar

from rollgym.metrics.activity import Activity
from rollgym.metrics.distribution import Distribution
from rollgym.metrics.groups import Groups
from rollgym.metrics.measures import Measures
from rollgym.metrics.summary import Counts, Summary, Throughput
from rollgym.records import (
    NO_USAGE,
    Attempt,
    Completed,
    Failed,
    FailureKind,
    OmitReason,
    Omitted,
    RecordState,
)

_TOKEN_LIMIT = 2**53
"""Token counts come from model endpoints. Beyond this they are nonsense, and could be beyond every
float; the distribution counts them as this."""

_Name = TypeVar("_Name", bound=StrEnum)


class Metrics:
    """Counts, distributions and estimates over the records added so far.

    Two of them are compared by their summaries.
    """

    __slots__ = (
        "_activity",
        "_attempts",
        "_failed_attempts",
        "_failures",
        "_groups",
        "_measures",
        "_omissions",
        "_output_tokens",
        "_rewards",
        "_seconds",
        "_successes",
        "_usage",
    )

    def __init__(self) -> None:
        self._attempts = 0
        self._successes = 0
        self._usage = NO_USAGE
        self._failed_attempts: Counter[FailureKind] = Counter()
        self._failures: Counter[FailureKind] = Counter()
        self._omissions: Counter[OmitReason] = Counter()
        self._rewards = Distribution()
        self._seconds = Distribution()
        self._output_tokens = Distribution()
        self._measures = Measures()
        self._groups = Groups()
        self._activity = Activity()

    def add(self, attempt: Attempt, standing: RecordState = RecordState.CURRENT) -> None:
        """Count one record. `standing` matters only where the record is final:

        - current: the rollout's end is counted, and its group is one nearer to closing;
        - reopened: the same, but the group stays open for the end that is still to come;
        - superseded: the record counts as an attempt and nothing else.

        At most one end of a rollout may count at a time: before the successor of a reopened one is
        added, `retract` it. A live run that does so, and a recount that adds the old end as
        superseded and the new one as current, come to the same numbers.
        """
        outcome = attempt.outcome
        self._attempts += 1
        self._usage += outcome.usage
        self._activity.mark(attempt.started, attempt.seconds)
        if isinstance(outcome, Failed):
            self._failed_attempts[outcome.failure.kind] += 1
        if attempt.final and standing is not RecordState.SUPERSEDED:
            self._end(attempt, resolved=standing is RecordState.CURRENT)

    def retract(self, outcome: Failed | Omitted) -> None:
        """Take back the end of a reopened rollout, whose new end is about to be added.

        That it was attempted, and what the attempt spent, stays counted.
        """
        match outcome:
            case Failed():
                self._failures[outcome.failure.kind] -= 1
            case Omitted():
                self._omissions[outcome.reason] -= 1

    def merge(self, other: Self) -> None:
        """Add everything the other has seen; the other is left as it is."""
        self._attempts += other._attempts
        self._successes += other._successes
        self._usage += other._usage
        self._failed_attempts.update(other._failed_attempts)
        self._failures.update(other._failures)
        self._omissions.update(other._omissions)
        self._rewards.merge(other._rewards)
        self._seconds.merge(other._seconds)
        self._output_tokens.merge(other._output_tokens)
        self._measures.merge(other._measures)
        self._groups.merge(other._groups)
        self._activity.merge(other._activity)

    def summary(self) -> Summary:
        """The numbers as they stand. Costs O(open groups + buckets), not O(records)."""
        counts = self._counts()
        histogram = self._groups.histogram()
        return Summary(
            counts=counts,
            success_rate=_ratio(counts.successes, counts.completed),
            avg_reward=self._rewards.mean,
            rewards=self._rewards.summary(),
            groups=histogram.counts(),
            pass_at_k=histogram.pass_at_k(),
            mean_at_k=histogram.mean_at_k(),
            failures_by_kind=_ordered(self._failures),
            failed_attempts_by_kind=_ordered(self._failed_attempts),
            omitted_by_reason=_ordered(self._omissions),
            seconds=self._seconds.summary(),
            output_tokens=self._output_tokens.summary(),
            measures=self._measures.summary(),
            measures_truncated=self._measures.truncated,
            usage=self._usage,
            throughput=self._throughput(counts),
        )

    def _end(self, attempt: Attempt, *, resolved: bool) -> None:
        match attempt.outcome:
            case Completed() as outcome:
                self._successes += outcome.succeeded
                self._rewards.add(outcome.reward)
                self._seconds.add(attempt.seconds)
                self._output_tokens.add(min(max(outcome.usage.output_tokens, 0), _TOKEN_LIMIT))
                self._measures.add(outcome.measures)
            case Failed() as outcome:
                self._failures[outcome.failure.kind] += 1
            case Omitted() as outcome:
                self._omissions[outcome.reason] += 1
        self._groups.add(attempt, resolved=resolved)

    def _counts(self) -> Counts:
        return Counts(
            attempts=self._attempts,
            completed=self._rewards.count,
            failed=self._failures.total(),
            omitted=self._omissions.total(),
            successes=self._successes,
        )

    def _throughput(self, counts: Counts) -> Throughput:
        outcomes = counts.completed + counts.failed + counts.omitted
        active = self._activity.seconds
        return Throughput(active_seconds=active, outcomes_per_second=_ratio(outcomes, active))


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _ordered(counts: Counter[_Name]) -> dict[_Name, int]:
    return {name: counts[name] for name in sorted(counts) if counts[name]}
