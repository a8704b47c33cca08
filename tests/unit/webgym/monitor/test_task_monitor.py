import msgspec
import pytest

from rollgym.engine import CollectionStarted, Event, Observer, StopRequested
from rollgym.records import (
    Completed,
    Failed,
    Failure,
    FailureKind,
    OmitReason,
    Omitted,
    Outcome,
    RecordState,
)
from rollgym.records import RolloutKey as Key
from tests.unit.monitor.events import BROKEN_TOOL, RIGHT, WRONG, attempt, ended, recorded, started
from webgym.monitor import task_monitor
from webgym.monitor.snapshot import MonitorSnapshot, TaskState
from webgym.monitor.task_monitor import TaskMonitor

TIMEOUT = Failed(Failure.make(FailureKind.TIMEOUT, "too late"))
BLOCKED = Completed(0.0, success=False, measures={"blocked": 1.0, "steps": 3.0})
STRAGGLER = Omitted(OmitReason.STRAGGLER)
EXPECTED = 5


class Run:
    """A monitor and the clock that it looks at, a run of five rollouts having begun."""

    def __init__(self, *, resumed: int = 0, overdue_after: float = 60.0) -> None:
        self.now = 100.0
        self.monitor = TaskMonitor(
            title="train\x1b[31m",
            label=lambda key: f"\x1b]0;label of\n{key}",
            overdue_after=overdue_after,
            clock=lambda: self.now,
            wall_clock=lambda: self.now,
        )
        self.resumed = resumed

    def begin(self) -> "Run":
        self.events(CollectionStarted(EXPECTED, EXPECTED, self.resumed))
        return self

    def events(self, *events: Event) -> None:
        self.monitor.observe(events)

    @property
    def seen(self) -> MonitorSnapshot:
        snapshot = self.monitor.snapshot()
        assert sum(snapshot.counts.values()) == snapshot.expected
        assert len(snapshot.cells) == snapshot.expected
        return snapshot


def test_it_is_an_observer_of_the_engine() -> None:
    observer: Observer = TaskMonitor()
    assert observer.name == "monitor"


def test_a_rollout_goes_through_its_states() -> None:
    run = Run().begin()
    assert run.seen.cells == "....."
    run.events(started(0))
    run.monitor.waiting(Key(0, 0))
    assert run.seen.cells == "w...."
    run.monitor.running(Key(0, 0), "navigate", 0)
    run.monitor.running(Key(0, 0), "model", 1)
    snapshot = run.seen
    assert snapshot.cells == ">...."
    assert snapshot.phases == {"model": 1}
    assert (snapshot.live[0].step, snapshot.live[0].phase) == (1, "model")
    run.events(recorded(RIGHT, 0))
    assert run.seen.cells == "+...."
    assert run.seen.live == ()


def test_every_outcome_is_an_end() -> None:
    cases: list[tuple[Outcome, TaskState]] = [
        (RIGHT, TaskState.SUCCESS),
        (WRONG, TaskState.FAILURE),
        (BLOCKED, TaskState.BLOCKED),
        (BROKEN_TOOL, TaskState.FAILED),
        (TIMEOUT, TaskState.FAILED),
        (STRAGGLER, TaskState.OMITTED),
    ]
    for outcome, state in cases:
        run = Run().begin()
        run.events(started(3), recorded(outcome, 3))
        assert run.seen.counts[state] == 1
        assert run.seen.ended == 1


def test_a_rollout_that_is_tried_again_goes_back_to_waiting() -> None:
    run = Run().begin()
    run.events(started(0))
    run.monitor.running(Key(0, 0), "model", 7)
    run.now = 2000.0
    run.events(recorded(TIMEOUT, 0, final=False))
    snapshot = run.seen
    assert snapshot.cells == "w...."
    assert snapshot.live[0].phase == "retry"
    assert (snapshot.retried, snapshot.timeouts) == (1, 1)
    run.monitor.running(Key(0, 0), "navigate", 1)
    assert run.seen.cells == ">...."
    assert run.seen.live[0].attempt == 2
    assert run.seen.live[0].seconds == 0


def test_a_late_record_of_the_first_attempt_does_not_stop_the_second() -> None:
    run = Run().begin()
    run.now = 1000.2
    run.monitor.running(Key(0, 0), "model", 7)
    run.now = 1001.0  # the attempt of the builder was over at 1000.5
    run.monitor.running(Key(0, 0), "navigate", 1)
    run.events(recorded(TIMEOUT, 0, final=False))
    assert run.seen.live[0].phase == "navigate"


def test_what_an_abandoned_episode_says_after_its_end_counts_for_nothing() -> None:
    run = Run().begin()
    run.events(started(0), recorded(STRAGGLER, 0))
    run.monitor.running(Key(0, 0), "execute", 9)
    assert run.seen.cells == "-...."


def test_what_a_resumed_run_found_is_counted() -> None:
    run = Run(resumed=3)
    run.monitor.replay(attempt(RIGHT, 0), RecordState.CURRENT)
    run.monitor.replay(attempt(TIMEOUT, 1, final=False), RecordState.CURRENT)
    run.monitor.replay(attempt(WRONG, 1, number=2), RecordState.CURRENT)
    run.monitor.replay(attempt(TIMEOUT, 2), RecordState.SUPERSEDED)
    run.monitor.replay(attempt(TIMEOUT, 2, number=2), RecordState.REOPENED)
    run.begin()
    assert run.seen.cells == "+x!.."
    assert run.seen.resumed == 3
    assert run.seen.rollouts_per_minute is None
    run.events(started(2))
    assert run.seen.cells == "+xw.."
    run.events(recorded(RIGHT, 2, replaced=TIMEOUT))
    assert run.seen.cells == "+x+.."


def test_without_a_replay_what_was_there_is_shown_as_earlier() -> None:
    run = Run(resumed=2).begin()
    run.events(started(4))
    assert run.seen.cells == "w==.."
    assert run.seen.ended == 2


def test_the_pace_is_of_this_run_and_says_when_it_ends() -> None:
    run = Run().begin()
    run.now += 30
    run.events(started(0), recorded(RIGHT, 0))
    run.now += 30
    run.events(started(1), recorded(WRONG, 1))
    snapshot = run.seen
    assert snapshot.elapsed == 60
    assert snapshot.rollouts_per_minute == pytest.approx(2.0)
    assert snapshot.remaining_seconds == pytest.approx(90.0)
    assert snapshot.success_rate == 0.5


def test_a_rollout_of_which_nothing_is_heard_is_overdue() -> None:
    run = Run(overdue_after=60).begin()
    for task in range(3):
        run.monitor.running(Key(task, 0), "model", 1)
    run.monitor.running(Key(1, 0), "execute", 1, within=200)
    run.monitor.waiting(Key(3, 0))
    run.now += 61
    run.monitor.running(Key(2, 0), "model", 2)
    snapshot = run.seen
    assert snapshot.cells == "?>>w."
    assert snapshot.overdue == 1
    assert snapshot.counts[TaskState.RUNNING] == 3
    assert snapshot.live[0].task == 0
    assert snapshot.live[0].overdue
    run.now += 200
    assert run.seen.cells == "???w."


def test_the_longest_running_come_first_with_printable_labels() -> None:
    run = Run().begin()
    for task in (3, 1, 2):
        run.now += 1
        run.monitor.running(Key(task, 0), "model", 1)
    run.monitor.waiting(Key(0, 0))
    live = run.seen.live
    assert [task.task for task in live] == [3, 1, 2, 0]
    assert live[0].label == "\ufffd]0;label of task 3 repeat 0"
    assert run.seen.title == "train\ufffd[31m"


def test_a_label_is_asked_for_once() -> None:
    asked: list[Key] = []

    def label(key: Key) -> str:
        asked.append(key)
        return f"label {key.task}"

    monitor = TaskMonitor(label=label)
    monitor.observe([CollectionStarted(3, 3, 0), started(0), started(1)])
    for _ in range(3):
        assert {task.label for task in monitor.snapshot().live} == {"label 0", "label 1"}
    assert len(asked) == 2
    monitor.observe([recorded(RIGHT, 0), recorded(RIGHT, 1)])
    assert monitor.snapshot().live == ()
    assert monitor._labels == {}


def test_labels_that_cannot_be_made_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    def broken(_: Key) -> str:
        raise ZeroDivisionError

    monitor = TaskMonitor(label=broken)
    monitor.observe([CollectionStarted(2, 2, 0), started(0), started(1)])
    assert [task.label for task in monitor.snapshot().live] == ["", ""]
    assert caplog.text.count("labels are not used any more") == 1


def test_steps_are_counted_once() -> None:
    run = Run().begin()
    for step in (1, 1, 2, 2, 3):
        run.monitor.running(Key(0, 0), "model", step)
    assert run.seen.steps == 3


def test_the_end_is_final() -> None:
    run = Run().begin()
    run.events(started(0), StopRequested("asked\nto stop"), recorded(RIGHT, 0))
    assert run.seen.stopping == "asked to stop"
    run.now += 10
    run.events(ended(EXPECTED, 1))
    run.now += 1000
    assert run.seen.finished
    assert run.seen.elapsed == 10
    assert run.seen.counts[TaskState.NOT_STARTED] == 4


def test_events_that_were_missed_are_told() -> None:
    run = Run().begin()
    end = ended(EXPECTED)
    coverage = msgspec.structs.replace(end.coverage, dropped_events={"monitor": 3})
    run.events(msgspec.structs.replace(end, coverage=coverage))
    assert run.seen.missed == 3


def test_a_large_run_has_a_bounded_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_monitor, "MOST_CELLS", 100)
    monkeypatch.setattr(task_monitor, "MOST_LIVE", 10)
    run = Run()
    run.events(CollectionStarted(1_001, 1_001, 0))
    for task in range(50):
        run.monitor.running(Key(task, 0), "model", 1)
    snapshot = run.monitor.snapshot()
    assert snapshot.rollouts_per_cell == 11
    assert len(snapshot.cells) == 91
    assert snapshot.cells.startswith(">>>>>.")
    assert len(snapshot.live) == 10
    assert snapshot.counts[TaskState.RUNNING] == 50
    assert snapshot.rollouts == ()


def test_repeats_of_a_task_are_rollouts_of_their_own() -> None:
    run = Run().begin()
    for repeat in range(4):
        run.monitor.running(Key(1, repeat), "model", 1)
    assert run.seen.counts[TaskState.RUNNING] == 4


def test_which_rollout_a_cell_is_of_is_told() -> None:
    run = Run().begin()
    run.monitor.running(Key(3, 1), "model", 1)
    run.events(started(0), recorded(RIGHT, 0))
    run.monitor.running(Key(1, (1 << 24) - 1), "model", 1)
    assert run.seen.rollouts == ((3, 1), (0, 0), (1, (1 << 24) - 1))
    assert run.seen.cells.startswith(">+>")
