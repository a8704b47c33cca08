"""The aggregate of a run's attempt records.

The same records give the same summary, bit for bit, in any order and however they are split: in a
live run, a resumed one, a merge of shards, a recount from disk. Each part consists of integers,
exact sums, sets and extremes, and only the summary rounds. Memory is bounded by
the open groups, the hours of the run and the names of measures, not by the number of records.
"""

from collections import Counter
from collections.abc import Iterable
from enum import StrEnum
from math import floor
from typing import TypeVar

from rollgym.metrics.distribution import NAME_LIMIT, ByName, Distribution
from rollgym.metrics.exact import ExactSum, rounded
from rollgym.metrics.groups import Groups
from rollgym.metrics.summary import Counts, Summary, Throughput
from rollgym.metrics.versions import VersionTotals
from rollgym.records import (
    NO_USAGE,
    Attempt,
    Completed,
    Failed,
    FailureKind,
    ModelRole,
    ModelUse,
    OmitReason,
    Omitted,
    RecordState,
)

_Key = tuple[str, ModelRole]


class _Totals:
    """The sums of one model."""

    __slots__ = ("calls", "cost", "first_token", "queued", "seconds", "timed", "usage")

    def __init__(self) -> None:
        self.calls = 0
        self.timed = 0
        self.usage = NO_USAGE
        self.cost: int | None = None
        self.seconds = ExactSum()
        self.queued = ExactSum()
        self.first_token = ExactSum()

    def add(self, use: ModelUse) -> None:
        self.calls += use.calls
        self.timed += use.timed
        self.usage += use.usage
        if use.cost is not None:
            self.cost = (self.cost or 0) + use.cost
        self.seconds.add(use.seconds)
        if use.queued:
            self.queued.add(use.queued)
        if use.first_token:
            self.first_token.add(use.first_token)


class ModelTotals:
    """Sums for each of the models whose names come first in the alphabet, as in `ByName`."""

    __slots__ = ("_by_model",)

    def __init__(self) -> None:
        self._by_model: dict[_Key, _Totals] = {}

    def add(self, uses: Iterable[ModelUse]) -> None:
        for use in uses:
            key = (use.model, use.role)
            totals = self._by_model.get(key)
            if totals is None:
                totals = self._by_model[key] = _Totals()
                if len(self._by_model) > NAME_LIMIT:
                    del self._by_model[max(self._by_model)]
            totals.add(use)

    def summary(self) -> tuple[ModelUse, ...]:
        """The models in the order of their names."""
        return tuple(
            ModelUse(
                model=model,
                role=role,
                calls=totals.calls,
                usage=totals.usage,
                seconds=rounded(totals.seconds.value),
                queued=rounded(totals.queued.value),
                first_token=rounded(totals.first_token.value),
                timed=totals.timed,
                cost=totals.cost,
            )
            for (model, role), totals in sorted(self._by_model.items())
        )


_TOKEN_LIMIT = 2**53
"""Token counts come from model endpoints. Larger counts are wrong and could exceed every float, so
the distribution counts them as this."""

_HOUR = 3600
LONGEST_ATTEMPT = 7 * 24 * _HOUR
"""The most seconds that one attempt marks, whatever duration it reports."""

_Name = TypeVar("_Name", bound=StrEnum)


class ActiveTime:
    """The set of active seconds: whole seconds of the wall clock with at least one attempt running.

    A rate over the time from the first to the last record would punish a run for having been
    killed on Friday and resumed on Monday, so rates are over active seconds. They are bits, 3600 in
    an integer for each hour, so a second is counted once however many attempts report it. A month
    takes 350 kB.
    """

    __slots__ = ("_hours", "_latest")

    def __init__(self) -> None:
        self._hours: dict[int, int] = {}
        self._latest = (0, -1)

    def mark(self, started: float, seconds: float) -> None:
        """Mark every whole second that [started, started + seconds] touches."""
        first = floor(started)
        last = max(first, floor(started + min(seconds, LONGEST_ATTEMPT)))
        if (first, last) == self._latest:  # as for most of many short attempts
            return
        self._latest = (first, last)
        first_hour, first_bit = divmod(first, _HOUR)
        last_hour, last_bit = divmod(last, _HOUR)
        for hour in range(first_hour, last_hour + 1):
            low = first_bit if hour == first_hour else 0
            high = last_bit if hour == last_hour else _HOUR - 1
            bits = ((1 << (high - low + 1)) - 1) << low
            self._hours[hour] = self._hours.get(hour, 0) | bits

    @property
    def seconds(self) -> int:
        """The number of active seconds."""
        return sum(bits.bit_count() for bits in self._hours.values())


class Metrics:
    """Counts, distributions and estimates over the records added so far."""

    __slots__ = (
        "_activity",
        "_attempts",
        "_failed_attempts",
        "_failures",
        "_groups",
        "_measures",
        "_models",
        "_omissions",
        "_output_tokens",
        "_rewards",
        "_seconds",
        "_successes",
        "_unscored_usage",
        "_usage",
        "_versions",
    )

    def __init__(self) -> None:
        self._attempts = 0
        self._successes = 0
        self._usage = NO_USAGE
        self._unscored_usage = NO_USAGE
        self._failed_attempts: Counter[FailureKind] = Counter()
        self._failures: Counter[FailureKind] = Counter()
        self._omissions: Counter[OmitReason] = Counter()
        self._rewards = Distribution()
        self._seconds = Distribution()
        self._output_tokens = Distribution()
        self._measures = ByName(Distribution)
        self._models = ModelTotals()
        self._versions = VersionTotals()
        self._groups = Groups()
        self._activity = ActiveTime()

    def add(self, attempt: Attempt, state: RecordState = RecordState.CURRENT) -> None:
        """Count one record. The outcome of a final record is counted unless it is superseded.

        At most one outcome of a rollout counts at a time: `retract` a reopened one before its
        successor is added. A live run that does so, and a recount that adds the old outcome as
        superseded and the new one as current, give the same numbers.
        """
        outcome = attempt.outcome
        self._attempts += 1
        self._usage += outcome.usage
        self._models.add(outcome.models)
        self._versions.add(attempt)
        if not isinstance(outcome, Completed):
            self._unscored_usage += outcome.usage
        self._activity.mark(attempt.started, attempt.seconds)
        if isinstance(outcome, Failed):
            self._failed_attempts[outcome.failure.kind] += 1
        if attempt.final and state is not RecordState.SUPERSEDED:
            self._count_outcome(attempt)

    def retract(self, outcome: Failed | Omitted, successor: Attempt) -> None:
        """Uncount the outcome of a reopened rollout, whose `successor` is about to be added.

        The attempt itself and its usage stay counted.
        """
        self._groups.retract(successor.task, successor.repeats)
        match outcome:
            case Failed():
                self._failures[outcome.failure.kind] -= 1
            case Omitted():
                self._omissions[outcome.reason] -= 1

    def summary(self) -> Summary:
        """The present numbers. Costs O(open groups + buckets), not O(records)."""
        counts = self._counts()
        groups = self._groups.totals()
        return Summary(
            counts=counts,
            success_rate=_ratio(counts.successes, counts.completed),
            avg_reward=self._rewards.mean,
            rewards=self._rewards.summary(),
            groups=groups.counts(),
            pass_at_k=groups.pass_at_k(),
            mean_at_k=groups.mean_at_k(),
            failures_by_kind=_ordered(self._failures),
            failed_attempts_by_kind=_ordered(self._failed_attempts),
            omitted_by_reason=_ordered(self._omissions),
            seconds=self._seconds.summary(),
            output_tokens=self._output_tokens.summary(),
            measures={name: each.summary() for name, each in self._measures.items()},
            measures_truncated=self._measures.truncated,
            models=self._models.summary(),
            policy_versions=self._versions.summary(),
            usage=self._usage,
            unscored_usage=self._unscored_usage,
            throughput=self._throughput(counts),
        )

    def _count_outcome(self, attempt: Attempt) -> None:
        match attempt.outcome:
            case Completed() as outcome:
                self._successes += outcome.succeeded
                self._rewards.add(outcome.reward)
                self._seconds.add(attempt.seconds)
                self._output_tokens.add(min(max(outcome.usage.output_tokens, 0), _TOKEN_LIMIT))
                self._measures.add(outcome.measures)
                self._versions.add_completed(outcome)
            case Failed() as outcome:
                self._failures[outcome.failure.kind] += 1
            case Omitted() as outcome:
                self._omissions[outcome.reason] += 1
        self._groups.add(attempt)

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
