"""Snapshots over a real socket."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import msgspec
import pytest
from aiohttp import web

from rollgym.engine import CollectionStarted
from rollgym.records import RolloutKey
from tests.unit.monitor.events import RIGHT, ended, recorded, started
from tests.unit.webgym.monitor.crowd import crowd
from webgym.environment.task_monitor import TaskMonitor
from webgym.monitor import events
from webgym.monitor.events import Snapshots, monitor_routes
from webgym.monitor.file import SnapshotFile, write_snapshot
from webgym.monitor.snapshot import MonitorSnapshot, read_snapshot

PATIENCE = 20.0
Scenario = Callable[[aiohttp.ClientSession, str], Awaitable[None]]


def with_server(source: Snapshots, scenario: Scenario, **options: int) -> None:
    async def run() -> None:
        async with (
            asyncio.timeout(PATIENCE),
            serving(source, **options) as url,
            aiohttp.ClientSession() as client,
        ):
            await scenario(client, url)

    asyncio.run(run())


@asynccontextmanager
async def serving(source: Snapshots, **options: int) -> AsyncIterator[str]:
    application = web.Application()
    application.add_routes(monitor_routes(source, interval=0.02, **options))
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def next_event(response: aiohttp.ClientResponse) -> tuple[str, str]:
    """The next event's name and data; comments and the like are passed over."""
    name, data = "", ""
    async for raw in response.content:
        line = raw.decode().rstrip("\n")
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            data = line.removeprefix("data: ")
        elif not line and name:
            return name, data
    return "closed", ""


def snapshot_of(event: tuple[str, str]) -> MonitorSnapshot:
    assert event[0] == "snapshot"
    return read_snapshot(event[1].encode())


def test_a_client_sees_the_run_until_it_is_over() -> None:
    monitor = TaskMonitor(title="run")
    monitor.observe([CollectionStarted(2, 2, 0)])

    async def scenario(client: aiohttp.ClientSession, url: str) -> None:
        async with client.get(f"{url}/monitor/events") as response:
            assert response.headers["Content-Type"] == "text/event-stream; charset=utf-8"
            assert snapshot_of(await next_event(response)).cells == ".."
            monitor.running(RolloutKey(0, 0), "model", 1)
            while (seen := snapshot_of(await next_event(response))).cells != ">.":
                pass
            assert seen.live[0].phase == "model"
            monitor.observe([started(0), recorded(RIGHT, 0), ended(2, 1)])
            while not snapshot_of(event := await next_event(response)).finished:
                pass
            assert snapshot_of(event).cells == "+."
            assert (await next_event(response))[0] == "end"
            assert (await next_event(response))[0] == "closed"

    with_server(monitor, scenario)


def test_the_present_snapshot_is_json() -> None:
    monitor = TaskMonitor(title="run")
    monitor.observe([CollectionStarted(3, 3, 0)])

    async def scenario(client: aiohttp.ClientSession, url: str) -> None:
        async with client.get(f"{url}/monitor.json") as response:
            assert response.status == 200
            assert response.headers["Cache-Control"] == "no-store"
            assert read_snapshot(await response.read()).expected == 3

    with_server(monitor, scenario)


def test_the_file_of_another_process_is_streamed(tmp_path: Path) -> None:
    path = tmp_path / "monitor.iteration1.json"

    async def scenario(client: aiohttp.ClientSession, url: str) -> None:
        async with client.get(f"{url}/monitor.json") as response:
            assert response.status == 404
            assert "has not begun" in (await response.json())["message"]
        async with client.get(f"{url}/monitor/events") as response:
            write_snapshot(path, crowd(10))
            assert snapshot_of(await next_event(response)).expected == 10
            path.write_bytes(b"half of a fi")
            await asyncio.sleep(0.1)
            async with client.get(f"{url}/monitor.json") as broken:
                assert broken.status == 502
            write_snapshot(path, crowd(20, finished=True))
            assert snapshot_of(await next_event(response)).expected == 20
            assert (await next_event(response))[0] == "end"

    with_server(SnapshotFile(path), scenario)


def test_there_are_only_so_many_clients_and_a_place_becomes_free() -> None:
    monitor = TaskMonitor()
    monitor.observe([CollectionStarted(3, 3, 0)])

    async def scenario(client: aiohttp.ClientSession, url: str) -> None:
        async with client.get(f"{url}/monitor/events") as first:
            await next_event(first)
            async with client.get(f"{url}/monitor/events") as second:
                assert second.status == 503
                assert second.headers["Retry-After"] == "2"
                assert "are watching already" in (await second.json())["message"]
        while True:
            async with client.get(f"{url}/monitor/events") as third:
                if third.status == 200:
                    break
            await asyncio.sleep(0.02)

    with_server(monitor, scenario, most_clients=1)


def test_while_nothing_changes_only_a_sign_of_life_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "HEARTBEAT_SECONDS", 0.05)
    path = tmp_path / "monitor.json"
    write_snapshot(path, crowd(10))

    async def scenario(client: aiohttp.ClientSession, url: str) -> None:
        async with client.get(f"{url}/monitor/events") as response:
            await next_event(response)
            assert await response.content.readuntil(b"\n\n") == b": nothing new\n\n"

    with_server(SnapshotFile(path), scenario)


def test_a_stream_ends_by_itself_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "LONGEST_STREAM", 0.1)
    path = tmp_path / "monitor.json"
    write_snapshot(path, crowd(10))

    async def scenario(client: aiohttp.ClientSession, url: str) -> None:
        async with client.get(f"{url}/monitor/events") as response:
            assert (await response.content.readuntil(b"\n\n")).startswith(b"retry: 2000")
            await next_event(response)
            assert (await next_event(response))[0] == "closed"

    with_server(SnapshotFile(path), scenario)


def test_one_snapshot_serves_all_who_ask_at_the_same_time() -> None:
    made = 0

    class Counted:
        def snapshot(self) -> MonitorSnapshot:
            nonlocal made
            made += 1
            return msgspec.structs.replace(crowd(10), steps=made)

    async def scenario(client: aiohttp.ClientSession, url: str) -> None:
        async def ask() -> None:
            async with client.get(f"{url}/monitor.json") as response:
                assert response.status == 200

        await asyncio.gather(*(ask() for _ in range(50)))
        assert made < 25

    with_server(Counted(), scenario)
