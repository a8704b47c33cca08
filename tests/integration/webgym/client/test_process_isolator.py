"""Worker processes that die, hang and eat memory, and browser requests through them."""

import asyncio
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from rollgym.records import Failure, FailureKind, RolloutError
from rollgym.servers.context import working_for
from tests.integration.webgym.client import worker_functions
from tests.integration.webgym.client.scripted_server import (
    PNG,
    ScriptedServer,
    answer,
    fault,
    never,
    scripted,
)
from webgym.actions.space import Viewport
from webgym.browser.contract import commands
from webgym.browser.contract.answers import Lease, Observe
from webgym.browser.contract.errors import (
    BadRequestError,
    CommandError,
    NavigationRefusedError,
    NoSessionError,
    ServerUnreachableError,
    SessionLostError,
    StepDeadlineError,
    UnauthorizedError,
)
from webgym.client import isolation, operations, sessions
from webgym.client.client import BrowserClient
from webgym.client.isolation import IsolatedBrowserClient, ProcessIsolator
from webgym.client.sessions import TOKEN_VARIABLE, SessionSource

PATIENCE = 60.0
CEILING = 600 << 20
Using = Callable[[ScriptedServer, IsolatedBrowserClient], Awaitable[None]]
Scenario = Callable[[ProcessIsolator], Awaitable[None]]


@pytest.fixture(autouse=True)
def no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)


def with_isolator(scenario: Scenario, **options: int) -> None:
    async def run() -> None:
        async with asyncio.timeout(PATIENCE), ProcessIsolator(**options) as isolator:
            await scenario(isolator)

    asyncio.run(run())


def with_client(
    using: Using, deadline_seconds: float = 20.0, token: str | None = None, workers: int = 2
) -> None:
    async def run() -> None:
        async with (
            asyncio.timeout(PATIENCE),
            scripted() as (server, url),
            IsolatedBrowserClient(url, token, deadline_seconds, workers=workers) as client,
        ):
            await using(server, client)

    asyncio.run(run())


async def announced(path: Path) -> int:
    """The process that is hanging now."""
    return await asyncio.to_thread(_announced, path)


def _announced(path: Path) -> int:
    until = time.monotonic() + PATIENCE
    while not (path.exists() and path.read_text()):
        assert time.monotonic() < until, "nobody has begun"
        time.sleep(0.01)
    return int(path.read_text())


def assert_gone(pid: int) -> None:
    until = time.monotonic() + PATIENCE
    while Path(f"/proc/{pid}").exists():
        assert time.monotonic() < until, f"process {pid} is still there"
        time.sleep(0.01)


def kind_of(error: Exception) -> tuple[FailureKind, bool]:
    failure = Failure.of(error)
    return failure.kind, failure.retryable


# ---- the workers


def test_a_worker_killed_in_the_middle_of_a_call_fails_that_call_alone(tmp_path: Path) -> None:
    async def scenario(isolator: ProcessIsolator) -> None:
        path = tmp_path / "pid"
        hanging = asyncio.create_task(
            isolator.run(worker_functions.announce_and_hang, str(path), within=30)
        )
        os.kill(await announced(path), signal.SIGKILL)
        with pytest.raises(
            RolloutError, match="a worker was lost during announce_and_hang"
        ) as lost:
            await hanging
        assert kind_of(lost.value) == (FailureKind.BROWSER, True)
        assert isolator.lost == 1
        assert await isolator.run(worker_functions.process_id, within=30) != int(path.read_text())

    with_isolator(scenario, workers=1)


def test_a_worker_that_hangs_is_killed_at_the_deadline(tmp_path: Path) -> None:
    async def scenario(isolator: ProcessIsolator) -> None:
        await isolator.run(worker_functions.process_id, within=30)
        path = tmp_path / "pid"
        began = time.monotonic()
        with pytest.raises(RolloutError) as late:
            await isolator.run(worker_functions.announce_and_hang, str(path), within=0.5)
        assert time.monotonic() - began < 40
        assert kind_of(late.value) == (FailureKind.TIMEOUT, True)
        await asyncio.to_thread(assert_gone, int(path.read_text()))
        await isolator.run(worker_functions.process_id, within=30)

    with_isolator(scenario, workers=1)


def test_a_worker_that_eats_memory_ends_at_the_ceiling_and_is_replaced() -> None:
    async def scenario(isolator: ProcessIsolator) -> None:
        before = await isolator.run(worker_functions.process_id, within=30)
        with pytest.raises(RolloutError, match="worker reached its memory ceiling") as full:
            await isolator.run(worker_functions.eat_memory, within=30)
        assert kind_of(full.value) == (FailureKind.BROWSER, True)
        assert await isolator.run(worker_functions.process_id, within=30) != before

    with_isolator(scenario, workers=1, memory_bytes=CEILING)


def test_a_crash_is_a_lost_browser_and_a_bug_is_a_bug() -> None:
    async def scenario(isolator: ProcessIsolator) -> None:
        with pytest.raises(RolloutError) as crashed:
            await isolator.run(worker_functions.crash, within=30)
        assert kind_of(crashed.value) == (FailureKind.BROWSER, True)
        with pytest.raises(RolloutError, match="ZeroDivisionError") as bug:
            await isolator.run(worker_functions.divide_by_zero, within=30)
        assert kind_of(bug.value) == (FailureKind.INTERNAL, False)

    with_isolator(scenario, workers=1)


def test_the_queue_for_workers_is_bounded(tmp_path: Path) -> None:
    async def scenario(isolator: ProcessIsolator) -> None:
        path = tmp_path / "pid"
        hanging = asyncio.create_task(
            isolator.run(worker_functions.announce_and_hang, str(path), within=30)
        )
        await announced(path)
        with pytest.raises(RolloutError, match="became free within 0.2 s") as none_free:
            await isolator.run(worker_functions.process_id, within=0.2)
        assert kind_of(none_free.value) == (FailureKind.BROWSER_UNAVAILABLE, True)
        waiting = asyncio.create_task(isolator.run(worker_functions.process_id, within=30))
        await asyncio.sleep(0)
        with pytest.raises(RolloutError, match="waiting for a worker already"):
            await isolator.run(worker_functions.process_id, within=30)
        hanging.cancel()
        assert await waiting != int(path.read_text())

    with_isolator(scenario, workers=1, queue_limit=1)


def test_what_cannot_be_sent_and_what_comes_too_late_is_refused() -> None:
    async def scenario(isolator: ProcessIsolator) -> None:
        with pytest.raises(BadRequestError, match="cannot be sent"):
            await isolator.run(worker_functions.announce_and_hang, "\ud800", within=30)
        with pytest.raises(StepDeadlineError, match="no time left"):
            await isolator.run(worker_functions.process_id, within=0)
        await isolator.close()
        with pytest.raises(RolloutError, match="were closed") as closed:
            await isolator.run(worker_functions.process_id, within=30)
        assert kind_of(closed.value) == (FailureKind.BROWSER_UNAVAILABLE, True)

    with_isolator(scenario)


# ---- the operations


def test_every_operation_is_a_request_of_the_contract() -> None:
    async def using(server: ScriptedServer, client: IsolatedBrowserClient) -> None:
        async with client.session(lifetime_mins=7, wait_seconds=3) as session:
            assert session.lease == Lease("i-1", "n-1")
            assert await session.metadata() == Viewport(800, 600)
            assert (await session.screenshot()).data == PNG
            named = {"instance_id": "i-1", "node": "n-1"}
            await client.ask(operations.navigate, named, "http://shop.test/", within=9)
            await client.ask(operations.page_metadata, named, within=9)
            await client.ask(operations.accessibility_tree, named, within=9)
            await session.execute(commands.ClickCoords(10, 20))
        asked = server.asked
        assert [each.path for each in asked] == [
            "/get",
            "/metadata",
            "/screenshot",
            *4 * ["/execute"],
            "/reset",
        ]
        assert asked[0].query["lifetime_mins"] == "7"
        assert 2 < float(asked[0].query["wait_seconds"]) <= 3
        assert asked[2].query == named | {"interaction_mode": "coordinates", "format": "png"}
        assert asked[3].json()["visit_page"] == {"url": "http://shop.test/"}
        assert 0 < asked[3].json()["deadline_seconds"] <= 9
        assert "get_page_metadata" in asked[4].json()
        assert "get_accessibility_tree" in asked[5].json()
        assert asked[6].json()["click_coords"] == {"x": 10, "y": 20}
        assert asked[7].query == named
        assert {each.headers["x-api-key"] for each in asked} == {"secret"}
        assert len({each.headers["x-client-id"] for each in asked}) == 1
        assert 0 < float(asked[1].headers["x-rollgym-timeout"]) <= 20

    with_client(using, token="secret")


def test_a_step_brings_all_that_the_server_saw() -> None:
    seen = {
        "page": {"url": "http://shop.test/cart", "title": "Cart", "tabs": 2},
        "result": {"status": "success"},
        "screenshot": {"media_type": "image/png", "data": "iVBORw=="},
        "elements": [
            {"id": 3, "tag": "a", "role": "link", "name": "Pay", "text": "Pay"}
            | {"box": {"x": 1, "y": 2, "width": 3, "height": 4}}
        ],
        "error": {"type": "unknown_element", "message": "there is no [9]"},
        "settled": False,
    }

    async def using(server: ScriptedServer, client: IsolatedBrowserClient) -> None:
        server.script("/step", answer(seen))
        async with client.session() as session:
            step = await session.step(commands.ClickId(9), Observe("set_of_marks"))
            await session.step(within=5)
        assert step.screenshot
        assert step.screenshot.data == b"\x89PNG"
        assert step.error
        assert step.elements
        assert step.elements[0].name == "Pay"
        assert (step.page.title, step.page.tabs, step.settled) == ("Cart", 2, False)
        first, second = (asked.json() for asked in server.asked[1:3])
        assert first["click_id"] == {"id": 9}
        assert first["observe"]["interaction_mode"] == "set_of_marks"
        assert set(second) == {"instance_id", "node", "observe", "deadline_seconds"}
        assert second["deadline_seconds"] <= 5

    with_client(using)


def test_what_the_server_reports_is_raised_as_what_it_is() -> None:
    cases: list[tuple[bytes | None, type[Exception]]] = [
        (fault("command_failed", 422), CommandError),
        (fault("navigation_refused", 403), NavigationRefusedError),
        (fault("bad_request", 400), BadRequestError),
        (fault("unauthorized", 401), UnauthorizedError),
        (fault("session_lost", 410), SessionLostError),
        (fault("deadline", 504), StepDeadlineError),
        (fault("internal", 500), ServerUnreachableError),
        (answer(b"<html>502</html>", 502, "text/html"), ServerUnreachableError),
        (answer({"no": "page"}), ServerUnreachableError),
        (
            b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\nconnection: close\r\n\r\n{",
            ServerUnreachableError,
        ),
        (b"nonsense\r\n\r\nconnection: close", ServerUnreachableError),
        (None, ServerUnreachableError),
    ]

    async def using(server: ScriptedServer, client: IsolatedBrowserClient) -> None:
        session = await client.get()
        for reply, expected in cases:
            server.script("/step", reply)
            with pytest.raises(expected) as caught:
                await session.step(commands.Back())
            assert type(caught.value) is expected
        assert server.paths().count("/step") == len(cases)
        assert client.isolator.lost == 0

    with_client(using)


def test_requests_that_change_nothing_are_made_again() -> None:
    async def using(server: ScriptedServer, client: IsolatedBrowserClient) -> None:
        server.script("/metadata", None, answer({"width": 1, "height": 2}))
        session = await client.get()
        assert await session.metadata() == Viewport(1, 2)

    with_client(using)


def test_an_address_where_nobody_is_says_how_to_start_a_server() -> None:
    async def run() -> None:
        async with IsolatedBrowserClient("http://127.0.0.1:9", workers=1) as client:
            with pytest.raises(ServerUnreachableError, match="rollgym browser serve"):
                await client.get(wait_seconds=0.1)

    asyncio.run(run())
    with pytest.raises(ValueError, match="is not the address"):
        IsolatedBrowserClient("localhost:7000")


def test_a_worker_does_not_pay_for_server_frameworks() -> None:
    program = f"import {operations.__name__}, sys; print(*sys.modules)"
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert not {"aiohttp", "pydantic", "rollgym.servers"} & set(ran.stdout.split())


# ---- time


def test_an_operation_stops_waiting_a_little_after_the_answer_was_due(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(operations, "SLACK", 0.1)

    async def run() -> None:
        async with scripted() as (server, url):
            server.script("/step", never)
            where: operations.ServerAddress = {"url": url, "headers": {}}
            session: operations.SessionAddress = {"instance_id": "i-1", "node": "n-1"}
            due = time.monotonic() + 0.2
            with pytest.raises(ServerUnreachableError, match="did not respond to POST /step"):
                await asyncio.to_thread(operations.step, where, due, session, {}, {})
            assert 0.2 < time.monotonic() - due + 0.2 < 5

    asyncio.run(run())


def test_a_worker_that_waits_too_long_for_the_server_is_killed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(isolation, "SLACK", 0.2)

    async def using(server: ScriptedServer, client: IsolatedBrowserClient) -> None:
        session = await client.get()
        server.script("/step", never)
        with pytest.raises(RolloutError) as late:
            await session.step(within=0.3)
        assert kind_of(late.value) == (FailureKind.TIMEOUT, True)
        await server.until(lambda: bool(server.left))

    with_client(using)


def test_no_request_takes_longer_than_its_rollout_has() -> None:
    async def using(server: ScriptedServer, client: IsolatedBrowserClient) -> None:
        session = await client.get()
        server.script("/step", never)
        loop = asyncio.get_running_loop()
        began = loop.time()
        with working_for("task 1", began + 0.5), pytest.raises(RolloutError) as late:
            await session.step()
        assert loop.time() - began < 30
        assert kind_of(late.value)[0] is FailureKind.TIMEOUT
        with working_for("task 1", began), pytest.raises(StepDeadlineError):
            await session.step()

    with_client(using)


def test_a_cancelled_step_ends_its_request() -> None:
    async def using(server: ScriptedServer, client: IsolatedBrowserClient) -> None:
        session = await client.get()
        server.script("/step", never)
        stepping = asyncio.create_task(session.step())
        await server.until(lambda: "/step" in server.paths())
        stepping.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stepping
        await server.until(lambda: bool(server.left))
        assert server.left[0].path == "/step"

    with_client(using)


def test_a_session_is_waited_for_and_the_wait_ends() -> None:
    async def using(server: ScriptedServer, client: IsolatedBrowserClient) -> None:
        taken = fault("no_session", 503, "all are taken", retry_after="0.1")
        server.script("/get", taken, taken, answer({"instance_id": "i-2", "node": "n-1"}))
        assert (await client.get(wait_seconds=30)).lease.instance_id == "i-2"
        server.script("/get", taken)
        with pytest.raises(NoSessionError, match="all are taken"):
            await client.get(wait_seconds=0.5)

    with_client(using)


def test_those_who_hold_a_session_find_a_worker_while_others_wait_for_one() -> None:
    async def using(server: ScriptedServer, client: IsolatedBrowserClient) -> None:
        session = await client.get()
        await session.step()
        server.script("/get", never)
        waiting = [asyncio.create_task(client.get(wait_seconds=60)) for _ in range(8)]
        await server.until(lambda: server.paths().count("/get") == 2)
        began = time.monotonic()
        await session.step()
        await client.release(session)
        assert time.monotonic() - began < 30
        assert server.paths().count("/get") == 2
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)

    with_client(using, workers=2)


def test_finished_work_is_not_lost_because_its_session_cannot_be_given_back(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "RELEASE_SECONDS", 0.3)

    async def using(server: ScriptedServer, client: IsolatedBrowserClient) -> None:
        server.script("/reset", fault("internal", 500))
        with caplog.at_level(logging.WARNING):
            async with client.session():
                pass
        server.script("/reset", fault("session_lost", 410))
        async with client.session():
            pass

    with_client(using)
    assert caplog.text.count("was not released") == 1


def test_a_worker_killed_in_the_middle_of_a_step_costs_that_step_alone() -> None:
    async def using(server: ScriptedServer, client: IsolatedBrowserClient) -> None:
        first, second = await client.get(), await client.get()
        pid = await client.isolator.run(worker_functions.process_id, within=30)
        server.script("/step", never)
        stepping = asyncio.create_task(first.step())
        await server.until(lambda: "/step" in server.paths())
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(RolloutError) as lost:
            await stepping
        assert kind_of(lost.value) == (FailureKind.BROWSER, True)
        server.script("/step", answer({"page": {"url": "", "title": "on"}, "result": {}}))
        assert (await second.step()).page.title == "on"
        await client.release(first)
        await client.release(second)
        assert server.paths().count("/reset") == 2

    with_client(using, workers=1)


def test_an_episode_can_use_either_client() -> None:
    def usable(browsers: SessionSource) -> bool:
        return hasattr(browsers, "get")

    assert usable(BrowserClient())
    assert usable(IsolatedBrowserClient())
