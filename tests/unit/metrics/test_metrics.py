from collections.abc import Iterable
from unittest.mock import patch

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from rollgym.metrics import Metrics, Summary
from rollgym.metrics.summary import GroupCounts, Throughput
from rollgym.records import (
    Attempt,
    Completed,
    Failed,
    FailureKind,
    OmitReason,
    Omitted,
    RecordState,
    Usage,
    decode_attempt,
    encode_attempt,
)
from tests.unit.metrics.strategies import (
    REWARDED,
    UNREWARDED,
    attempt,
    failed,
    group,
    rerun_histories,
    runs,
)


def metrics_of(attempts: Iterable[Attempt]) -> Metrics:
    metrics = Metrics()
    for record in attempts:
        metrics.add(record)
    return metrics


def encoded(metrics: Metrics) -> bytes:
    return msgspec.json.encode(metrics.summary())


@settings(max_examples=40)
@given(runs(), st.data())
def test_the_order_of_the_records_does_not_show(
    attempts: list[Attempt], data: st.DataObject
) -> None:
    shuffled = data.draw(st.permutations(attempts))
    assert encoded(metrics_of(shuffled)) == encoded(metrics_of(attempts))


@settings(max_examples=40)
@given(runs(), st.data())
def test_the_order_does_not_decide_which_of_too_many_versions_are_kept(
    attempts: list[Attempt], data: st.DataObject
) -> None:
    shuffled = data.draw(st.permutations(attempts))
    with patch("rollgym.metrics.versions.VERSION_LIMIT", 2):
        assert encoded(metrics_of(shuffled)) == encoded(metrics_of(attempts))


@settings(max_examples=40)
@given(runs())
def test_a_recount_from_disk_is_the_live_count(attempts: list[Attempt]) -> None:
    attempts = [*attempts, attempt(Completed(1, measures={"steps": 2**60 + 1}), task=1_000)]
    read_back = metrics_of([decode_attempt(encode_attempt(record)) for record in attempts])
    assert encoded(read_back) == encoded(metrics_of(attempts))
    assert msgspec.json.decode(encoded(read_back), type=Summary) == read_back.summary()


@settings(max_examples=40)
@given(rerun_histories(), st.data())
def test_rerunning_live_and_recounting_agree_after_every_record(
    histories: list[list[Attempt]], data: st.DataObject
) -> None:
    live = Metrics()
    done = [0] * len(histories)
    turns = [rollout for rollout, history in enumerate(histories) for _ in history]
    for rollout in data.draw(st.permutations(turns)):
        history, place = histories[rollout], done[rollout]
        if place:
            superseded = history[place - 1].outcome
            assert isinstance(superseded, Failed | Omitted)
            live.retract(superseded, history[place])
        last = place == len(history) - 1
        live.add(history[place], RecordState.CURRENT if last else RecordState.REOPENED)
        done[rollout] += 1
        assert encoded(live) == encoded(recount(histories, done))


def recount(histories: list[list[Attempt]], done: list[int]) -> Metrics:
    """What a journal with the first `done` ends of each rollout amounts to, read backwards."""
    metrics = Metrics()
    for history, written in zip(histories, done, strict=True):
        for place in reversed(range(written)):
            current = place == written - 1
            metrics.add(history[place], RecordState.CURRENT if current else RecordState.SUPERSEDED)
    return metrics


def test_a_reopened_end_counts_until_its_successor_comes() -> None:
    old = failed(FailureKind.TIMEOUT)
    metrics = Metrics()
    metrics.add(attempt(old), RecordState.REOPENED)
    before = metrics.summary()
    assert (before.counts.failed, before.failures_by_kind) == (1, {FailureKind.TIMEOUT: 1})

    metrics.retract(old, attempt(REWARDED, number=2))
    metrics.add(attempt(REWARDED, number=2))
    after = metrics.summary()
    assert (after.counts.attempts, after.counts.failed, after.counts.completed) == (2, 0, 1)
    assert after.failures_by_kind == {}
    assert after.failed_attempts_by_kind == {FailureKind.TIMEOUT: 1}


def test_every_rollout_is_counted_by_how_it_ended_and_every_attempt_by_how_it_failed() -> None:
    summary = metrics_of(
        [
            attempt(failed(FailureKind.TOOL), number=1, final=False),
            attempt(REWARDED, number=2),
            attempt(failed(FailureKind.TOOL), task=1),
            attempt(failed(FailureKind.TIMEOUT), task=2),
            attempt(Omitted(OmitReason.STRAGGLER), task=3),
            attempt(UNREWARDED, task=4),
        ]
    ).summary()
    assert summary.counts.attempts == 6
    assert (summary.counts.completed, summary.counts.failed, summary.counts.omitted) == (2, 2, 1)
    assert summary.failures_by_kind == {FailureKind.TIMEOUT: 1, FailureKind.TOOL: 1}
    assert summary.failed_attempts_by_kind == {FailureKind.TIMEOUT: 1, FailureKind.TOOL: 2}
    assert summary.omitted_by_reason == {OmitReason.STRAGGLER: 1}


def test_rates_are_over_completed_rollouts_only() -> None:
    summary = metrics_of(group(REWARDED, UNREWARDED, failed(), failed())).summary()
    assert (summary.success_rate, summary.avg_reward, summary.counts.successes) == (0.5, 0.5, 1)
    assert (summary.rewards.count, summary.seconds.count, summary.output_tokens.count) == (2, 2, 2)
    assert summary.groups == GroupCounts(seen=1, complete=0)
    assert summary.pass_at_k == {1: 0.5, 2: 1.0}
    assert summary.mean_at_k == {1: 0.5, 2: 0.5}
    verdicts = [Completed(0.2, success=True), Completed(1.0, success=False), Completed(1.5)]
    assert metrics_of(group(*verdicts)).summary().counts.successes == 2


def test_usage_is_that_of_all_attempts_and_output_tokens_that_of_completed_ones() -> None:
    spent = Usage(100, 10, 5, 1)
    broken = Failed(failed().failure, usage=spent)
    summary = metrics_of(
        [attempt(broken, final=False), attempt(Completed(1.0, usage=spent), number=2)]
    ).summary()
    assert summary.usage == spent + spent
    assert (summary.output_tokens.count, summary.output_tokens.max) == (1, 10.0)
    absurd = metrics_of([attempt(Completed(1.0, usage=Usage(0, 10**400)))]).summary()
    assert absurd.usage.output_tokens == 10**400
    assert absurd.output_tokens.max == 2.0**53


def test_throughput_is_outcomes_per_active_second() -> None:
    attempts = [
        attempt(REWARDED, started=1_000.0, seconds=9.5),
        attempt(failed(), task=1, started=1_002.0, seconds=3.0),
        attempt(failed(), task=2, started=90_000.0, seconds=9.5, final=False),
    ]
    assert metrics_of(attempts).summary().throughput == Throughput(
        active_seconds=20, outcomes_per_second=0.1
    )


def test_a_run_without_records_has_no_rates() -> None:
    summary = Metrics().summary()
    assert (summary.success_rate, summary.avg_reward) == (None, None)
    assert summary.throughput == Throughput(active_seconds=0, outcomes_per_second=None)
    assert (summary.pass_at_k, summary.mean_at_k, summary.measures) == ({}, {}, {})
