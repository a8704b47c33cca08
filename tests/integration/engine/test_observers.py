"""Observers see everything, and can neither slow nor break a collection."""

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from rollgym.engine import (
    AttemptRecorded,
    AttemptStarted,
    CollectionEnded,
    CollectionStarted,
    Event,
    Fixed,
    WholeRecord,
    WorkItem,
    observers,
    recorder,
)
from rollgym.records import (
    NOTHING,
    Attempt,
    Completed,
    Failed,
    FailureKind,
    Outcome,
    TaskError,
    decode_attempt,
)
from rollgym.store import RecordLookup, Status
from tests.collecting import Collector, complete


class Recording:
    """Keeps every event."""

    name = "recording"

    def __init__(self) -> None:
        self.events: list[Event] = []

    def observe(self, events: Sequence[Event]) -> None:
        self.events.extend(events)

    def of(self, kind: type[Event]) -> list[Event]:
        return [event for event in self.events if isinstance(event, kind)]


class Raising:
    name = "raising"

    def observe(self, events: Sequence[Event]) -> None:
        raise RuntimeError("a broken display")


class Hanging:
    """Blocks its own thread until released."""

    name = "hanging"

    def __init__(self) -> None:
        self.release = threading.Event()

    def observe(self, events: Sequence[Event]) -> None:
        self.release.wait()


def test_an_observer_receives_every_event_in_order(tmp_path: Path) -> None:
    recording = Recording()
    coverage = Collector(tmp_path, count=50, repeats=2)(complete, observers=[recording])
    assert recording.events[0] == CollectionStarted(100, 50, 0)
    assert isinstance(recording.events[-1], CollectionEnded)
    assert recording.events[-1].coverage == coverage
    assert len(recording.of(AttemptStarted)) == len(recording.of(AttemptRecorded)) == 100
    assert coverage.dropped_events == {}


def test_a_recorded_attempt_can_be_read_where_the_event_says(tmp_path: Path) -> None:
    recording = Recording()

    async def worker(item: WorkItem, attempt: int, deadline: float) -> Outcome:
        return Completed(0.5, result=msgspec.Raw(b'{"text":"long"}'))

    Collector(tmp_path)(worker, observers=[recording])
    for event in recording.events:
        if isinstance(event, AttemptRecorded):
            assert event.attempt.outcome.result is NOTHING
            with event.journal.open("rb") as file:
                file.seek(event.offset)
                stored = decode_attempt(file.readline())
            assert stored.key == event.attempt.key
            assert bytes(stored.outcome.result) == b'{"text":"long"}'


class ReadingAtOnce(Recording):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[WholeRecord | None, Attempt]] = []

    def observe(self, events: Sequence[Event]) -> None:
        super().observe(events)
        for event in events:
            if isinstance(event, AttemptRecorded):
                with RecordLookup() as records:
                    stored = records.record(event.journal, event.offset)
                self.found.append((event.whole(), stored))


@pytest.mark.parametrize("bound", [1 << 20, 0])
def test_only_the_latest_records_are_in_memory_just_as_in_the_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: int
) -> None:
    monkeypatch.setattr(recorder, "LATEST_BYTES", bound)
    reading = ReadingAtOnce()

    async def worker(item: WorkItem, attempt: int, deadline: float) -> Outcome:
        return Completed(1, measures={"steps": 2}, result=msgspec.Raw(b'{"text":\n"long"}'))

    Collector(tmp_path, count=20)(worker, observers=[reading])
    assert len(reading.found) == 20
    for whole, stored in reading.found:
        if bound:
            assert whole is not None
            assert msgspec.json.encode(whole.attempt) == msgspec.json.encode(stored)
            assert whole.task.index == stored.task
        else:
            assert whole is None


def test_a_replaced_outcome_is_named(tmp_path: Path) -> None:
    async def broken(item: WorkItem, attempt: int, deadline: float) -> Outcome:
        raise TaskError("broke")

    collector, recording = Collector(tmp_path, count=1), Recording()
    collector(broken)
    collector(complete, reopen=[Status.FAILED], observers=[recording])
    assert recording.events[0] == CollectionStarted(1, 1, 1)
    (recorded,) = recording.of(AttemptRecorded)
    assert isinstance(recorded, AttemptRecorded)
    assert isinstance(recorded.replaced, Failed)
    assert recorded.replaced.failure.kind is FailureKind.TASK


def test_a_raising_observer_is_cut_off_and_its_loss_counted(tmp_path: Path) -> None:
    recording = Recording()
    coverage = Collector(tmp_path, count=20)(complete, observers=[Raising(), recording])
    assert coverage.completed == 20
    assert coverage.dropped_events["raising"] == len(recording.events)
    assert "recording" not in coverage.dropped_events


@pytest.mark.usefixtures("_short_timeout")
def test_a_hanging_observer_delays_nothing(tmp_path: Path) -> None:
    hanging = Hanging()
    coverage = Collector(tmp_path, count=500)(complete, observers=[hanging], concurrency=Fixed(64))
    assert coverage.completed == 500
    assert coverage.dropped_events["hanging"] > 800
    hanging.release.set()


@pytest.fixture
def _short_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observers, "CLOSE_TIMEOUT", 0.2)
    monkeypatch.setattr(observers, "QUEUE_SIZE", 100)


def test_an_observer_left_behind_missed_also_what_it_had_in_hand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observers, "CLOSE_TIMEOUT", 0.3)
    recording, hanging = Recording(), Hanging()
    coverage = Collector(tmp_path / "run", count=20)(complete, observers=[recording, hanging])
    hanging.release.set()
    assert len(recording.events) >= 41
    assert coverage.dropped_events == {"hanging": len(recording.events)}


def test_an_observer_that_raised_misses_also_what_happens_later(tmp_path: Path) -> None:
    async def worker(item: WorkItem, attempt: int, deadline: float) -> Outcome:
        await asyncio.sleep(4 * observers.WAKE_INTERVAL)
        return await complete(item, attempt, deadline)

    recording = Recording()
    collector = Collector(tmp_path / "run", count=3)
    coverage = collector(worker, observers=[recording, Raising()], concurrency=Fixed(1))
    assert coverage.dropped_events == {"raising": len(recording.events)}
