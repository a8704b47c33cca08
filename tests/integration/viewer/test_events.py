import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from rollgym.viewer import library, server
from rollgym.viewer.http import events
from rollgym.viewer.open_source import LiveCheck
from rollgym.viewer.openers import open_sources
from tests.builders import make_run
from tests.integration.viewer.browsing import PATIENCE, Browser, browsing, until
from tests.integration.viewer.rollouts import failure, rollout, write

Event = tuple[str, Any]


class Stream:
    """The events of an open stream, in order."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response

    async def event(self) -> Event | None:
        """The next one; None at the end of the stream."""
        kind = ""
        async with asyncio.timeout(PATIENCE):
            async for line in self._response.content:
                name, _, value = line.decode().strip().partition(": ")
                if name == "event":
                    kind = value
                elif name == "data":
                    return kind, msgspec.json.decode(value)
        return None

    async def entries(self, count: int, *, live: bool = False) -> dict[str, Any]:
        """The source once it has this number of entries and, with `live`, is known to be live."""

        async def source() -> Event:
            event = await self.event()
            assert event is not None, "the stream has ended"
            return event

        def is_meant(event: Event) -> bool:
            kind, said = event
            return kind == "source" and said["state"]["entries"] == count and said["live"] >= live

        found = await until(source, is_meant)
        described: dict[str, Any] = found[1]
        return described


@asynccontextmanager
async def listening(browser: Browser) -> AsyncIterator[Stream]:
    timeout = aiohttp.ClientTimeout(total=None)
    async with browser.session.get(f"{browser.root}/api/events", timeout=timeout) as response:
        assert response.status == 200
        assert response.content_type == "text/event-stream"
        yield Stream(response)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write(tmp_path / "x.jsonl", [rollout()])


def test_what_is_appended_is_reported_without_being_asked_for(path: Path) -> None:
    async def growing() -> None:
        async with browsing(path) as browser, listening(browser) as stream:
            first = await stream.entries(1)
            assert (first["id"], first["coverage"]["completed"]) == ("x", 1)
            with path.open("ab") as file:
                file.write(rollout(1, 0, 0.0))
            told = await stream.entries(2, live=True)
            assert told["coverage"]["completed"] == 2
            assert told["mean_reward"] == 0.5
            write(path.with_name("x_failures.jsonl"), [failure(2)])
            assert (await stream.entries(3))["coverage"]["failed"] == 1

    asyncio.run(growing())


def test_how_fast_a_run_goes_is_reported(path: Path) -> None:
    run = make_run(path.with_name("x.run"), 5, 2)
    now = time.time()
    row = '{"_ng_task_index":%d,"reward":1.0,"started":%f,"seconds":30.0}\n'
    write(path, [(row % (task, now - 120 + 30 * task)).encode() for task in range(4)])

    async def asking() -> None:
        with closing(run):
            async with browsing(path) as browser, listening(browser) as stream:
                told = await stream.entries(4, live=True)
                assert told["started"] == pytest.approx(now - 120, abs=1e-3)
                assert told["latest"] == pytest.approx(now, abs=1e-3)
                assert told["rate"] == pytest.approx(2.0)
                assert told["left_seconds"] == pytest.approx(60 * 6 / 2.0)

    asyncio.run(asking())


def test_of_an_empty_folder_is_reported_what_begins_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library, "DISCOVERY_SECONDS", 0.0)

    async def beginning() -> None:
        async with browsing(tmp_path) as browser, listening(browser) as stream:
            assert (await browser.get("/api/sources")).json == {"sources": []}
            assert (await browser.get("/")).status == 200
            write(tmp_path / "x.jsonl", [rollout()])
            assert (await stream.entries(1))["id"] == "x"

    asyncio.run(beginning())


def test_two_who_listen_are_reported_the_same(path: Path) -> None:
    async def growing() -> None:
        async with (
            browsing(path) as browser,
            listening(browser) as one,
            listening(browser) as other,
        ):
            with path.open("ab") as file:
                file.write(rollout(1))
            assert await one.entries(2) == await other.entries(2)

    asyncio.run(growing())


def test_when_the_viewer_ends_so_does_the_stream(path: Path) -> None:
    async def ending() -> None:
        async with asyncio.timeout(PATIENCE), aiohttp.ClientSession() as session:
            async with browsing(path) as browser:
                response = await session.get(f"{browser.root}/api/events")
                stream = Stream(response)
                await stream.entries(1)
                begun = asyncio.get_running_loop().time()
            assert asyncio.get_running_loop().time() - begun < 10
            assert await stream.event() is None
            response.close()

    asyncio.run(ending())


def test_more_than_enough_listeners_are_rejected_and_a_place_becomes_free_again(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "MOST_CLIENTS", 1)

    async def crowding() -> None:
        async with browsing(path) as browser:
            async with listening(browser):
                refused = await browser.get("/api/events")
                assert refused.status == 503
                assert "1 pages already receive live updates" in refused.error
            async with asyncio.timeout(PATIENCE):
                while True:
                    async with browser.session.get(f"{browser.root}/api/events") as again:
                        if again.status == 200:
                            return
                    await asyncio.sleep(0.1)

    asyncio.run(crowding())


def test_a_quiet_stream_is_kept_alive(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "HEARTBEAT_SECONDS", 0.0)

    async def waiting() -> None:
        async with (
            browsing(path) as browser,
            browser.session.get(f"{browser.root}/api/events") as response,
            asyncio.timeout(PATIENCE),
        ):
            async for line in response.content:
                if line == b": heartbeat\n":
                    return

    asyncio.run(waiting())


def test_a_stream_has_an_end(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "LONGEST_STREAM", 0.0)

    async def waiting() -> None:
        async with browsing(path) as browser, listening(browser) as stream:
            assert await stream.event() is None

    asyncio.run(waiting())


def test_the_stream_cannot_be_asked_for_its_head(path: Path) -> None:
    async def asking() -> None:
        async with browsing(path) as browser:
            assert (await browser.get("/api/events", method="HEAD")).status == 405

    asyncio.run(asking())


def test_the_monitor_of_a_run_is_reported_as_it_changes(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monitor = path.with_name("monitor.json")
    sources = [msgspec.structs.replace(each, monitors=(monitor,)) for each in open_sources([path])]
    monkeypatch.setattr(server, "open_sources", lambda _: sources)

    async def watching() -> None:
        async with browsing(path) as browser, listening(browser) as stream:

            async def told() -> Event | None:
                return await stream.event()

            for number in (1, 2):
                snapshot = {"steps": number, "time": 0.0, "title": "a\nb"}
                text = msgspec.json.format(msgspec.json.encode(snapshot))  # of several lines
                write(path.with_name("new"), [text]).replace(monitor)
                event = await until(told, lambda event: event is not None and event[0] == "monitor")
                assert event == ("monitor", {"id": "x", "snapshots": [snapshot]})
            monitor.write_text("{half of it")
            shown = await browser.get("/api/s/x/monitor")
            assert shown.json["snapshots"] == []

    asyncio.run(watching())


def test_a_monitor_that_cannot_be_read_does_not_end_the_stream(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for broken in [b'{"a": "\xff"}', b'{"a": 1e999}', b"[]", b'{"a": "\\ud800"}']:
        monitor = path.with_name("monitor.json")
        monitor.write_bytes(broken)
        sources = [
            msgspec.structs.replace(each, monitors=(monitor,)) for each in open_sources([path])
        ]
        monkeypatch.setattr(server, "open_sources", lambda _: sources)

        async def watching() -> None:
            async with browsing(path) as browser, listening(browser) as stream:
                assert (await stream.entries(1))["id"] == "x"
                assert (await browser.get("/api/s/x/monitor")).json["snapshots"] == []

        asyncio.run(watching())


def test_a_monitor_of_any_depth_does_not_end_the_stream(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monitors = tuple(path.with_name(f"monitor{depth}.json") for depth in range(940, 1000))
    for depth, monitor in enumerate(monitors, 940):
        monitor.write_bytes(b'{"a": %b%b}' % (b"[" * depth, b"]" * depth))
    sources = [msgspec.structs.replace(each, monitors=monitors) for each in open_sources([path])]
    monkeypatch.setattr(server, "open_sources", lambda _: sources)

    async def watching() -> None:
        async with browsing(path) as browser, listening(browser) as stream:
            assert (await stream.entries(1))["id"] == "x"

    asyncio.run(watching())


def test_which_rollouts_a_monitor_has_is_reported_only_to_those_who_ask(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monitor = path.with_name("monitor.json")
    monitor.write_bytes(b'{"steps": 1, "rollouts": [[0, 0]]}')
    sources = [msgspec.structs.replace(each, monitors=(monitor,)) for each in open_sources([path])]
    monkeypatch.setattr(server, "open_sources", lambda _: sources)

    async def watching() -> None:
        async with browsing(path) as browser, listening(browser) as stream:

            async def told() -> Event | None:
                return await stream.event()

            event = await until(told, lambda event: event is not None and event[0] == "monitor")
            assert event == ("monitor", {"id": "x", "snapshots": [{"steps": 1}]})
            shown = await browser.get("/api/s/x/monitor")
            assert shown.json["snapshots"] == [{"steps": 1, "rollouts": [[0, 0]]}]

    asyncio.run(watching())


def test_a_run_that_has_ended_has_no_rate(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LiveCheck, "is_live", lambda _: False)
    now = time.time()
    row = '{"_ng_task_index":%d,"reward":1.0,"started":%f,"seconds":30.0}\n'
    write(path, [(row % (task, now - 120 + 30 * task)).encode() for task in range(4)])

    async def asking() -> None:
        async with browsing(path) as browser, listening(browser) as stream:
            told = await stream.entries(4)
            assert (told["live"], told["rate"], told["left_seconds"]) == (False, None, None)

    asyncio.run(asking())
