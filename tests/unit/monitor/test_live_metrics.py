from rollgym.engine import CollectionStarted, StopRequested
from rollgym.monitor import LiveMetrics
from rollgym.records import FailureKind, RecordState, RolloutKey
from tests.unit.monitor.events import (
    BROKEN_TOOL,
    RATE_LIMITED,
    RIGHT,
    WRONG,
    attempt,
    ended,
    recorded,
    started,
)


def test_recorded_attempts_are_counted_and_other_events_ignored() -> None:
    metrics = LiveMetrics()
    metrics.observe([CollectionStarted(2, 2, 0), started(), recorded(RIGHT, 0)])
    metrics.observe([recorded(WRONG, 1), StopRequested("asked")])
    summary = metrics.summary()
    assert summary.counts.completed == 2
    assert summary.success_rate == 0.5
    assert not metrics.finished
    metrics = LiveMetrics()
    metrics.observe([ended(1)])
    assert metrics.finished


def test_a_resumed_run_and_a_live_one_come_to_the_same_numbers() -> None:
    live, resumed = LiveMetrics(), LiveMetrics()
    live.observe([recorded(RATE_LIMITED, 0, final=False), recorded(RIGHT, 0, number=2)])
    resumed.replay(attempt(RATE_LIMITED, 0, final=False), RecordState.CURRENT)
    resumed.observe([recorded(RIGHT, 0, number=2)])
    assert live.summary() == resumed.summary()
    assert live.retried == resumed.retried == 1


def test_a_reopened_failure_gives_way_to_its_new_end() -> None:
    metrics = LiveMetrics()
    metrics.replay(attempt(BROKEN_TOOL, 0), RecordState.REOPENED)
    assert metrics.reopened == 1
    assert metrics.summary().counts.failed == 1
    metrics.observe([recorded(RIGHT, 0, number=2, replaced=BROKEN_TOOL)])
    assert metrics.reopened == 0
    assert metrics.summary().counts.failed == 0
    assert metrics.summary().counts.completed == 1
    assert metrics.examples == {}


def test_the_example_of_a_kind_is_its_first_failed_rollout() -> None:
    metrics = LiveMetrics()
    metrics.observe([recorded(BROKEN_TOOL, 7), recorded(BROKEN_TOOL, 3), recorded(BROKEN_TOOL, 5)])
    example = metrics.examples[FailureKind.TOOL]
    assert example.key == RolloutKey(3, 0)
    assert example.detail == "the tool said \ufffd[31mno"
    metrics = LiveMetrics()
    metrics.observe([recorded(RATE_LIMITED, final=False)])
    metrics.replay(attempt(BROKEN_TOOL), RecordState.SUPERSEDED)
    assert metrics.examples == {}
