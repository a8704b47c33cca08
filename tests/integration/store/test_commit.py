"""Group commit: acknowledged means synced."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from rollgym.records import encode_attempt
from rollgym.store import EVERY_RECORD, ControlChange, ControlLog, Disk, SyncPolicy
from rollgym.store.journal import MOST_UNWRITTEN, GroupCommit, Journal
from tests.builders import record

LINE = encode_attempt(record())


class WatchedDisk(Disk):
    """Syncs when allowed; notes what is written, and how large the file was at each sync."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []
        self.allowed = asyncio.Event()
        self.allowed.set()
        self.started = 0
        self.synced_sizes: list[int] = []

    def write(self, descriptor: int, data: bytes) -> int:
        self.writes.append(data)
        return super().write(descriptor, data)

    async def sync_in_background(self, descriptor: int) -> None:
        size = os.fstat(descriptor).st_size
        self.started += 1
        await self.allowed.wait()
        await super().sync_in_background(descriptor)
        self.synced_sizes.append(size)


class Commit:
    """A group commit over a watched disk, with the records it acknowledged."""

    def __init__(self, directory: Path, policy: SyncPolicy) -> None:
        self.disk = WatchedDisk()
        self.journal = Journal(directory / "journal.jsonl", self.disk)
        self.group = GroupCommit(self.journal, policy)
        self.acknowledged = 0
        self.group.on_durable(self._acknowledge)

    def _acknowledge(self, count: int) -> None:
        self.acknowledged += count
        assert self.disk.synced_sizes[-1] >= self.acknowledged * len(LINE)


async def until(happened: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not happened():  # noqa: ASYNC110 - a count, not an event
            await asyncio.sleep(0.001)


def test_nothing_is_acknowledged_before_its_sync_has_ended(tmp_path: Path) -> None:
    async def scenario() -> None:
        commit = Commit(tmp_path, SyncPolicy(max_delay=0.0))
        commit.disk.allowed.clear()
        service = asyncio.create_task(commit.group.run())
        commit.group.append(LINE)
        await until(lambda: commit.disk.started == 1)
        commit.group.append(LINE)
        assert commit.acknowledged == 0
        commit.disk.allowed.set()
        await until(lambda: commit.acknowledged == 2)
        assert commit.disk.synced_sizes == [len(LINE), 2 * len(LINE)]
        service.cancel()
        commit.journal.close()

    asyncio.run(scenario())


def test_records_that_come_together_share_a_sync(tmp_path: Path) -> None:
    async def scenario() -> None:
        commit = Commit(tmp_path, SyncPolicy(max_delay=0.02))
        service = asyncio.create_task(commit.group.run())
        for _ in range(100):
            commit.group.append(LINE)
            await commit.group.keep_pace()
        await until(lambda: commit.acknowledged == 100)
        assert len(commit.disk.synced_sizes) == 1
        service.cancel()
        commit.journal.close()

    asyncio.run(scenario())


def test_records_that_are_added_together_share_a_write(tmp_path: Path) -> None:
    async def scenario() -> None:
        commit = Commit(tmp_path, SyncPolicy())
        offsets = [commit.group.add(LINE) for _ in range(3)]
        assert commit.disk.writes == []
        commit.group.write()
        offsets.append(commit.group.append(LINE))
        assert commit.disk.writes == [3 * LINE, LINE]
        assert offsets == [0, len(LINE), 2 * len(LINE), 3 * len(LINE)]
        await commit.group.flush()
        assert commit.acknowledged == 4
        commit.journal.close()

    asyncio.run(scenario())


def test_added_records_are_written_by_the_next_sync_and_when_they_are_many(tmp_path: Path) -> None:
    async def scenario() -> None:
        commit = Commit(tmp_path, SyncPolicy())
        commit.group.add(LINE)
        await commit.group.flush()
        assert commit.acknowledged == 1
        large = b"x" * MOST_UNWRITTEN
        assert commit.group.add(large) == len(LINE)
        assert commit.disk.writes == [LINE, large]
        commit.journal.close()

    asyncio.run(scenario())


def test_every_record_means_a_sync_for_each(tmp_path: Path) -> None:
    async def scenario() -> None:
        commit = Commit(tmp_path, EVERY_RECORD)
        for count in range(1, 6):
            commit.group.append(LINE)
            await commit.group.keep_pace()
            assert commit.acknowledged == count
        assert commit.disk.synced_sizes == [len(LINE) * count for count in range(1, 6)]
        commit.journal.close()

    asyncio.run(scenario())


def test_unsynced_records_are_bounded_by_waiting(tmp_path: Path) -> None:
    async def scenario() -> None:
        commit = Commit(tmp_path, SyncPolicy(max_delay=60.0, max_unsynced=10))
        for _ in range(95):
            commit.group.append(LINE)
            await commit.group.keep_pace()
            assert commit.journal.appended - commit.acknowledged < 10
        assert commit.acknowledged == 90
        await commit.group.flush()
        assert commit.acknowledged == 95
        commit.journal.close()

    asyncio.run(scenario())


def test_impossible_policies_are_refused() -> None:
    with pytest.raises(ValueError, match="max_delay"):
        SyncPolicy(max_delay=-1)
    with pytest.raises(ValueError, match="max_unsynced"):
        SyncPolicy(max_unsynced=0)


def test_a_cancelled_flush_of_the_control_log_leaves_its_sync_to_the_next(tmp_path: Path) -> None:
    async def scenario() -> None:
        disk = WatchedDisk()
        log = ControlLog(tmp_path / "control.jsonl", disk)
        log.append(ControlChange(time=0.0, by="a test", command="pause"))
        disk.allowed.clear()
        flushing = asyncio.ensure_future(log.flush())
        await until(lambda: disk.started == 1)
        flushing.cancel()
        await asyncio.wait({flushing}, timeout=60)
        disk.allowed.set()
        await log.flush()
        assert disk.synced_sizes == [log.path.stat().st_size]
        await log.flush()
        assert disk.started == 2
        log.close()

    asyncio.run(scenario())
