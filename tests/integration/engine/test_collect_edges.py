"""Edge cases of the collection's decisions: bounds, and simultaneous events."""

from collections.abc import Sequence
from pathlib import Path

from rollgym.engine import (
    AttemptRecorded,
    Event,
    Fixed,
    Stop,
    WorkItem,
)
from rollgym.records import Failed, Failure, FailureKind, Outcome, TaskError, ToolError
from rollgym.store import EVERY_RECORD, Disk, Status, SyncPolicy
from tests.builders import failed, make_run, record, write_journal
from tests.collecting import Collector, complete


def test_a_retryable_failure_that_cannot_be_written_is_final_and_not_tried_again(
    tmp_path: Path,
) -> None:
    attempts = 0

    async def worker(item: WorkItem, attempt: int, deadline: float) -> Outcome:
        nonlocal attempts
        attempts += 1
        failure = Failure.make(FailureKind.TOOL, "it broke")
        return Failed(failure, phases={"model": "long"})  # type: ignore[dict-item]

    collector = Collector(tmp_path / "run", count=1)
    coverage = collector(worker)
    assert (attempts, coverage.attempts, coverage.failed) == (1, 1, 1)
    assert collector.finals[0, 0]["failure"]["kind"] == "internal"


class AskingDisk(Disk):
    """Requests a stop at one of its syncs."""

    def __init__(self, stop: Stop, at: int) -> None:
        super().__init__()
        self._stop = stop
        self._left = at

    async def sync_in_background(self, descriptor: int) -> None:
        self._left -= 1
        if self._left == 0:
            self._stop.request()
        await super().sync_in_background(descriptor)


def test_a_request_to_stop_ends_the_omitting_of_what_never_began(tmp_path: Path) -> None:
    """Otherwise the user would wait until all other rollouts are omitted."""
    stop = Stop()
    collector = Collector(tmp_path / "run", count=200)
    coverage = collector(
        complete,
        concurrency=Fixed(1),
        completion_threshold=0.01,
        completion_grace_period=0.0,
        sync=EVERY_RECORD,
        disk=AskingDisk(stop, at=20),
        stop=stop,
    )
    assert coverage.omitted >= 10
    assert coverage.unresolved >= 170


async def broken(_item: WorkItem, _attempt: int, _deadline: float) -> Outcome:
    raise ToolError("it broke")


def test_a_reopened_rollout_has_its_retries_again(tmp_path: Path) -> None:
    async def broken_once_more(item: WorkItem, attempt: int, deadline: float) -> Outcome:
        if attempt == 4:
            raise ToolError("it broke")
        return await complete(item, attempt, deadline)

    collector = Collector(tmp_path / "run", count=1)
    assert collector(broken).attempts == 3
    coverage = collector(broken_once_more, reopen=[Status.FAILED])
    assert (coverage.completed, coverage.failed, coverage.attempts) == (1, 0, 2)


def test_an_interrupted_rollout_goes_on_with_the_retries_it_has_left(tmp_path: Path) -> None:
    collector = Collector(tmp_path / "run", count=1)
    make_run(collector.directory, 1).close()
    earlier = [record(attempt=number, final=False, outcome=failed()) for number in (1, 2)]
    write_journal(collector.directory / "journal.jsonl", earlier)
    coverage = collector(broken)
    assert (coverage.failed, coverage.attempts) == (1, 1)
    assert [line["attempt"] for line in collector.lines] == [1, 2, 3]


class Recorded:
    """Keeps the attempts it is told of."""

    name = "recorded"

    def __init__(self) -> None:
        self.events: list[AttemptRecorded] = []

    def observe(self, events: Sequence[Event]) -> None:
        self.events += [event for event in events if isinstance(event, AttemptRecorded)]


def test_only_the_final_attempt_replaces_a_reopened_outcome(tmp_path: Path) -> None:
    """Otherwise an observer would retract the old outcome once for every attempt."""

    async def hopeless(item: WorkItem, attempt: int, deadline: float) -> Outcome:
        raise TaskError("no such task")

    collector, recorded = Collector(tmp_path / "run", count=1), Recorded()
    collector(hopeless)
    collector(broken, reopen=[Status.FAILED], observers=[recorded])
    replaced = [event.replaced for event in recorded.events]
    assert replaced[:-1] == [None, None]
    assert isinstance(replaced[-1], Failed)
    assert replaced[-1].failure.kind is FailureKind.TASK


class PacedDisk(Disk):
    """Counts the records that a crash of the machine could cost."""

    def __init__(self) -> None:
        super().__init__()
        self.unsynced = self.most = 0

    def write(self, descriptor: int, data: bytes) -> int:
        self.unsynced += data.count(b"\n")
        self.most = max(self.most, self.unsynced)
        return super().write(descriptor, data)

    async def sync_in_background(self, descriptor: int) -> None:
        await super().sync_in_background(descriptor)
        self.unsynced = 0


def test_the_collection_waits_where_too_many_records_are_unsynced(tmp_path: Path) -> None:
    collector, disk = Collector(tmp_path / "run", count=50), PacedDisk()
    make_run(collector.directory, 50).close()
    coverage = collector(complete, disk=disk, sync=SyncPolicy(max_delay=30.0, max_unsynced=5))
    assert coverage.completed == 50
    assert disk.most == 5
