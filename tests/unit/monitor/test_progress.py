import io
from collections.abc import Iterator
from typing import cast

import pytest

from rollgym.engine import (
    CollectionStarted,
    Event,
    Held,
    Observer,
    RolloutsReopened,
    StopRequested,
)
from rollgym.monitor import ProgressObserver
from rollgym.records import RecordState
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


class Clock:
    """Time that passes only when told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def progress(clock: Clock) -> Iterator[ProgressObserver]:
    with ProgressObserver(io.StringIO(), clock=clock) as observer:
        yield observer


def test_it_counts_what_has_ended(progress: ProgressObserver, clock: Clock) -> None:
    observer: Observer = progress
    assert observer.name == "progress"
    progress.observe([CollectionStarted(10, 10, 4), started(4), started(5), started(6)])
    clock.now += 2.0
    progress.observe([recorded(RIGHT, 4), recorded(WRONG, 5), recorded(BROKEN_TOOL, 6)])
    view = progress.view()
    assert (view.expected, view.resolved, view.failed) == (10, 7, 1)
    assert (view.avg_reward, view.success_rate) == (0.5, 0.5)
    assert view.in_flight == 0
    assert view.rate == pytest.approx(1.5)
    assert view.elapsed == pytest.approx(2.0)
    progress.observe([CollectionStarted(2, 2, 0), StopRequested("asked\x1b[2J to stop")])
    assert progress.view().stopping == "asked\ufffd[2J to stop"


def test_the_most_frequent_failure_is_shown(progress: ProgressObserver) -> None:
    progress.observe([CollectionStarted(2, 2, 0), started(), recorded(RATE_LIMITED, final=False)])
    view = progress.view()
    assert (view.resolved, view.retried, view.failed) == (0, 1, 0)
    assert view.failure == (
        "retrying: 1 x model_rate_limit (the model endpoint asked us to slow down)"
    )
    progress.observe([CollectionStarted(9, 9, 0)])
    progress.observe([recorded(RATE_LIMITED, task, final=False) for task in range(5)])
    progress.observe([recorded(BROKEN_TOOL, 6)])
    assert progress.view().failure == "failing: 1 x tool (a tool or its server failed)"


def test_a_reopened_rollout_is_not_settled_before_its_new_end(progress: ProgressObserver) -> None:
    progress.metrics.replay(attempt(BROKEN_TOOL, 0), RecordState.REOPENED)
    progress.metrics.replay(attempt(RIGHT, 1), RecordState.CURRENT)
    progress.observe([CollectionStarted(2, 2, 2)])
    assert progress.view().resolved == 1
    progress.observe([recorded(RIGHT, 0, number=2, replaced=BROKEN_TOOL)])
    assert progress.view().resolved == 2


def test_the_numbers_in_flight_stay_between_nothing_and_the_limit(
    progress: ProgressObserver,
) -> None:
    progress.observe([CollectionStarted(9, 9, 0), started(limit=2), started(1, limit=2)])
    progress.observe([started(2, limit=2)])  # its predecessor's record is not synced yet
    assert progress.view().in_flight == 2
    progress.observe([recorded(RIGHT, task) for task in range(5)])
    assert progress.view().in_flight == 0


def test_odd_events_change_nothing(progress: ProgressObserver) -> None:
    progress.observe([])
    progress.observe([recorded(RIGHT)])
    progress.observe(cast("list[Event]", [object(), None]))
    progress.observe([CollectionStarted(0, 0, 0), ended(0)])
    progress.observe([CollectionStarted(0, 0, 0), ended(0)])
    assert progress.view().share == 1.0


def test_a_pipe_sees_the_start_and_the_end() -> None:
    stream = io.StringIO()
    progress = ProgressObserver(stream)
    progress.observe([CollectionStarted(1, 1, 0), started()])
    progress.observe([recorded(RIGHT), ended(1, 1)])
    progress.close()
    first, last = stream.getvalue().splitlines()
    assert first == "Collecting rollouts: 1 expected"
    assert "100% 1/1" in last
    assert "avg_reward 1.000" in last


def test_a_rollout_that_is_run_again_is_not_resolved_and_a_pause_is_shown(
    progress: ProgressObserver,
) -> None:
    progress.observe([CollectionStarted(2, 2, 0), started(), recorded(BROKEN_TOOL)])
    progress.observe([RolloutsReopened(1), Held(("a person paused it", "the trainer is behind"))])
    view = progress.view()
    assert (view.resolved, view.failed) == (0, 1)
    assert view.stopping == "Waiting: a person paused it; the trainer is behind."
    progress.observe([Held(())])
    assert progress.view().stopping is None
