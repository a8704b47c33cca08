"""What episodes in worker processes store and report arrives in the run of the driver."""

import asyncio
from pathlib import Path
from typing import cast

import msgspec

from rollgym.cluster.link import Link
from rollgym.records import RolloutKey
from rollgym.store import BlobRef, BlobStore
from tests.builders import make_run
from tests.trajectories import trajectory
from webgym.episode.judging import UnjudgedEpisodes
from webgym.monitor.task_monitor import TaskMonitor
from webgym.rollout import episode_processes as processes

KEY = RolloutKey(1, 0)


class _Direct:
    """A link without a process between its ends."""

    def __init__(self, driver: processes._Driver) -> None:
        self._driver = driver

    async def call(self, service: str, body: bytes) -> bytes:
        return await self._driver.services[service](body)

    def note(self, topic: str, body: bytes) -> None:
        self._driver.take_note(topic, body)


def test_files_and_episodes_are_on_the_disk_of_the_driver(tmp_path: Path) -> None:
    async def store() -> None:
        files, kept = processes._DriverFiles(link), processes._DriverUnjudged(link)
        ref = await files.put(b"a picture", ".png")
        assert ref == BlobRef(ref.name, 9)
        assert screenshots.path(ref).read_bytes() == await files.read(ref) == b"a picture"

        assert await kept.find(KEY) is None
        await kept.keep(KEY, episode)
        assert list(unjudged) == [KEY]
        found = await kept.find(KEY)
        assert msgspec.json.encode(found) == msgspec.json.encode(episode)
        await kept.discard(KEY)
        assert list(unjudged) == []

    episode = trajectory()
    with make_run(tmp_path / "run") as run, UnjudgedEpisodes(run.directory) as unjudged:
        screenshots = BlobStore(tmp_path / "screenshots")
        driver = processes._Driver(screenshots, unjudged, TaskMonitor())
        link = cast("Link", _Direct(driver))
        asyncio.run(store())


def test_the_monitor_of_the_driver_shows_the_episodes(tmp_path: Path) -> None:
    with (
        make_run(tmp_path / "run") as run,
        UnjudgedEpisodes(run.directory) as unjudged,
        TaskMonitor() as monitor,
    ):
        driver = processes._Driver(BlobStore(tmp_path), unjudged, monitor)
        reported = processes._DriverMonitor(cast("Link", _Direct(driver)))

        reported.waiting(KEY)
        waited = driver.waiting.copy()
        reported.running(KEY, "model", 3)
        live = monitor.snapshot().live

    assert waited == {KEY}
    assert driver.waiting == set()
    assert [(each.task, each.phase, each.step) for each in live] == [(1, "model", 3)]
