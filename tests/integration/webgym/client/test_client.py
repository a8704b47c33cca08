import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

import pytest

from rollgym.records import Failure, FailureKind
from rollgym.servers.context import working_for
from tests.integration.webgym.client.scripted_server import (
    PNG,
    Asked,
    ScriptedServer,
    answer,
    fault,
    never,
    scripted,
)
from webgym.actions.space import Viewport
from webgym.browser import http_client
from webgym.browser.contract import commands
from webgym.browser.contract.answers import Observe
from webgym.browser.contract.errors import (
    BadRequestError,
    CommandError,
    NavigationError,
    NavigationRefusedError,
    NoSessionError,
    PageCrashedError,
    PageUnresponsiveError,
    ServerUnreachableError,
    SessionLostError,
    StepDeadlineError,
    UnauthorizedError,
    UnknownElementError,
)
from webgym.client import sessions as sessions_module
from webgym.client.client import BrowserClient, BrowserSession
from webgym.client.sessions import TOKEN_VARIABLE

Using = Callable[[ScriptedServer, BrowserClient], Awaitable[None]]
HTML = answer(b"<html><h1>502 Bad Gateway</h1></html>", 502, "text/html")


def with_client(using: Using, deadline_seconds: float = 20.0, token: str | None = None) -> None:
    async def run() -> None:
        async with (
            scripted() as (server, url),
            BrowserClient(url, token, deadline_seconds) as client,
        ):
            await using(server, client)

    asyncio.run(run())


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is tested here is that there are pauses and slack, not how long they are."""
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    monkeypatch.setattr(http_client, "REPEATS", (0.01, 0.01))
    monkeypatch.setattr(http_client, "SLACK", 0.1)
    monkeypatch.setattr(sessions_module, "SHORTEST_PAUSE", 0.01)


def test_a_session_is_taken_used_and_given_back() -> None:
    async def using(server: ScriptedServer, client: BrowserClient) -> None:
        async with client.session(lifetime_mins=7, wait_seconds=3) as session:
            await session.visit_page("http://shop.test/")
            await session.click_coords(10, y=20)
        assert server.paths() == ["/get", "/execute", "/execute", "/reset"]
        taken, visit, click, given_back = server.asked
        assert taken.method == "POST"
        assert taken.query["lifetime_mins"] == "7"
        assert 2.5 < float(taken.query["wait_seconds"]) <= 3
        names = {"instance_id": "i-1", "node": "n-1", "deadline_seconds": 20.0}
        assert visit.json() == names | {"visit_page": {"url": "http://shop.test/"}}
        assert click.json() == names | {"click_coords": {"x": 10, "y": 20}}
        assert given_back.query == names | {"deadline_seconds": "20"}
        assert server.connections == 1

    with_client(using)


def test_every_request_says_who_asks_and_how_long_there_is() -> None:
    async def using(server: ScriptedServer, client: BrowserClient) -> None:
        async with client.session() as session:
            await session.probe()
        assert {asked.headers["x-api-key"] for asked in server.asked} == {"secret"}
        assert len({asked.headers["x-client-id"] for asked in server.asked}) == 1
        assert 15 < float(server.asked[1].headers["x-rollgym-timeout"]) <= 20

    with_client(using, token="secret")


def test_the_token_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    async def using(server: ScriptedServer, client: BrowserClient) -> None:
        await client.info()
        assert server.asked[0].headers.get("x-api-key") == "from outside"

    monkeypatch.setenv(TOKEN_VARIABLE, "from outside")
    with_client(using)


def test_each_command_has_a_method() -> None:
    for kind in commands.COMMANDS.values():
        if kind is not commands.Screenshot:
            assert callable(getattr(BrowserSession, kind.command))


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
        "a field of a newer server": 1,
    }

    async def using(server: ScriptedServer, client: BrowserClient) -> None:
        server.script("/step", answer(seen))
        async with client.session() as session:
            step = await session.step(commands.ClickId(9), Observe("set_of_marks"))
            await session.step()
        assert step.screenshot
        assert step.screenshot.data == b"\x89PNG"
        assert step.error
        assert step.error.type == "unknown_element"
        assert step.elements
        assert step.elements[0].name == "Pay"
        assert (step.page.title, step.page.tabs, step.settled) == ("Cart", 2, False)
        first, second = (asked.json() for asked in server.asked[1:3])
        assert first["click_id"] == {"id": 9}
        assert first["observe"]["interaction_mode"] == "set_of_marks"
        assert set(second) == {"instance_id", "node", "observe", "deadline_seconds"}

    with_client(using)


def test_what_a_session_can_be_asked() -> None:
    async def using(server: ScriptedServer, client: BrowserClient) -> None:
        server.script("/execute", answer({"text": "Tea\nMint"}))
        server.script("/screenshot", answer(b"\xff\xd8\xff...", content_type="image/jpeg"))
        async with client.session() as session:
            assert await session.metadata() == Viewport(800, 600)
            assert await session.probe()
            assert await session.get_webpage_text(n_lines=2) == "Tea\nMint"
            picture = await session.screenshot("set_of_marks", "jpeg")
            assert (picture.media_type, picture.data) == ("image/jpeg", b"\xff\xd8\xff...")
        asked = server.asked[server.paths().index("/screenshot")]
        assert asked.query["interaction_mode"] == "set_of_marks"
        assert asked.query["format"] == "jpeg"

    with_client(using)


def test_the_nodes_of_the_server_are_told() -> None:
    node = {"url": "http://a", "hash": "n-1", "capacity": 8, "available": 5, "instances": ["i"]}

    async def using(server: ScriptedServer, client: BrowserClient) -> None:
        nodes = [node | {"healthy": True}, node | {"healthy": False}]
        server.script("/info", answer({"nodes": nodes, "more": 1}))
        info = await client.info()
        assert [each.healthy for each in info.nodes] == [True, False]
        assert info.available == 5

    with_client(using)


def test_what_the_server_reports_is_raised_as_what_it_is() -> None:
    cases: list[tuple[str, int, type[Exception]]] = [
        ("command_failed", 422, CommandError),
        ("unknown_element", 422, UnknownElementError),
        ("navigation_failed", 422, NavigationError),
        ("navigation_refused", 403, NavigationRefusedError),
        ("page_crashed", 502, PageCrashedError),
        ("page_unresponsive", 504, PageUnresponsiveError),
        ("bad_request", 400, BadRequestError),
        ("unauthorized", 401, UnauthorizedError),
        ("session_lost", 410, SessionLostError),
        ("deadline", 504, StepDeadlineError),
        ("internal", 500, ServerUnreachableError),
        ("something new", 422, CommandError),
    ]
    for kind, status, expected in cases:

        async def using(server: ScriptedServer, client: BrowserClient) -> None:
            server.script("/execute", fault(kind, status, "because of rain"))
            async with client.session() as session:
                with pytest.raises(expected, match="because of rain") as caught:
                    await session.back()
                assert type(caught.value) is expected
            assert server.paths() == ["/get", "/execute", "/reset"]

        with_client(using)


def test_a_lost_session_is_not_alive_and_need_not_be_given_back() -> None:
    async def using(server: ScriptedServer, client: BrowserClient) -> None:
        lost = fault("session_lost", 410, "the browser died")
        for path in ("/probe", "/reset", "/screenshot"):
            server.script(path, lost)
        async with client.session() as session:
            assert not await session.probe()
            await session.reset()
            with pytest.raises(SessionLostError) as caught:
                await session.screenshot()
        assert Failure.of(caught.value).kind is FailureKind.BROWSER
        assert server.paths().count("/screenshot") == 1

    with_client(using)


# ---- waiting for a session


def test_where_all_sessions_are_taken_the_client_asks_again_when_told_to() -> None:
    async def using(server: ScriptedServer, client: BrowserClient) -> None:
        taken = fault("no_session", 503, "all are taken", retry_after="0.2")
        server.script("/get", taken, taken, answer({"instance_id": "i-2", "node": "n-1"}))
        began = time.monotonic()
        session = await client.get(wait_seconds=30)
        assert session.lease.instance_id == "i-2"
        assert 0.4 <= time.monotonic() - began < 30
        waits = [float(asked.query["wait_seconds"]) for asked in server.asked]
        assert waits == sorted(waits, reverse=True)
        assert waits[2] <= 29.6

    with_client(using)


def test_waiting_for_a_session_ends_before_a_retry_that_would_come_too_late() -> None:
    async def using(server: ScriptedServer, client: BrowserClient) -> None:
        server.script("/get", fault("no_session", 503, "all are taken", retry_after="30"))
        with pytest.raises(NoSessionError, match="all are taken") as caught:
            await client.get(wait_seconds=2)
        assert caught.value.retry_after == 30
        assert server.paths() == ["/get"]

    with_client(using)


def test_a_server_that_keeps_saying_at_once_is_not_asked_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def using(server: ScriptedServer, client: BrowserClient) -> None:
        server.script("/get", fault("no_session", 503, retry_after="0"))
        with pytest.raises(NoSessionError):
            await client.get(wait_seconds=1000)
        assert len(server.asked) == 5

    monkeypatch.setattr(sessions_module, "MOST_REQUESTS", 5)
    with_client(using)


def test_nonsense_in_retry_after_counts_as_nothing_said() -> None:
    cases: list[str] = ["soon", "nan", "-1", "1e99", "Wed, 21 Oct 2026 07:28:00 GMT"]
    for retry_after in cases:

        async def using(server: ScriptedServer, client: BrowserClient) -> None:
            full = fault("no_session", 503, retry_after=retry_after)
            server.script("/get", full, answer({"instance_id": "i-2", "node": "n"}))
            await client.get(wait_seconds=5)
            assert len(server.asked) == 2

        with_client(using)


def test_who_may_not_ask_is_told_at_once() -> None:
    async def using(server: ScriptedServer, client: BrowserClient) -> None:
        server.script("/get", fault("unauthorized", 401, "the token is wrong"))
        with pytest.raises(UnauthorizedError, match="the token is wrong"):
            await client.get()
        assert len(server.asked) == 1

    with_client(using)


def test_a_server_that_is_restarting_is_waited_for() -> None:
    cases: list[bytes | None] = [None, HTML, answer({"instance_id": 5})]
    for broken in cases:

        async def using(server: ScriptedServer, client: BrowserClient) -> None:
            server.script("/get", broken, broken, answer({"instance_id": "i-2", "node": "n"}))
            assert (await client.get()).lease.instance_id == "i-2"

        with_client(using)


def test_where_nobody_listens_that_is_said() -> None:
    async def run() -> None:
        async with scripted() as (_, url):
            pass
        async with BrowserClient(url) as client:
            for asking in (client.get(wait_seconds=0.05), client.info()):
                with pytest.raises(
                    ServerUnreachableError, match=f"^{url} did not answer"
                ) as caught:
                    await asking
                failure = Failure.of(caught.value)
                assert failure.kind is FailureKind.BROWSER_UNAVAILABLE
                assert failure.retryable

    asyncio.run(run())


# ---- no answer, or none that can be read

LAST = b"connection: close\r\n\r\n"
GARBAGE = {
    "a proxy's page": HTML,
    "a page that says all is well": answer(b"<html>Welcome!</html>", 200, "text/html"),
    "half a document": answer(b'{"page": {"url": "http'),
    "another type": answer([1, 2, 3]),
    "nothing": answer(b""),
    "no text": answer(b"\xff\xfe\x00"),
    "fewer bytes than announced": b"HTTP/1.1 200 OK\r\ncontent-length: 999\r\n" + LAST + b"{}",
    "a broken chunk": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n" + LAST + b"zz\r\n",
    "another protocol": b"SSH-2.0-OpenSSH_9.2\r\n" + LAST,
    "a redirect": answer({}, 302, location="http://127.0.0.1:1/"),
    "a cut connection": None,
}


def test_a_command_without_a_readable_answer_is_not_repeated() -> None:
    for garbage in GARBAGE.values():

        async def using(server: ScriptedServer, client: BrowserClient) -> None:
            server.script("/step", garbage)
            server.script("/execute", garbage)
            session = await client.get()
            for doing in (session.step(commands.Back()), session.execute(commands.Back())):
                with pytest.raises(ServerUnreachableError) as caught:
                    await doing
                assert len(str(caught.value)) < 1_000
            assert server.paths() == ["/get", "/step", "/execute"]

        with_client(using)


def test_a_request_that_changes_nothing_is_repeated() -> None:
    for garbage in GARBAGE.values():

        async def using(server: ScriptedServer, client: BrowserClient) -> None:
            server.script("/screenshot", garbage, garbage, answer(PNG, content_type="image/png"))
            server.script("/info", garbage, garbage, answer({"nodes": []}))
            session = await client.get()
            assert (await session.screenshot()).data == PNG
            await client.info()
            asked = [path for path in server.paths() if path != "/get"]
            # The HTTP client itself asks once more where a connection that was kept is cut.
            assert 6 <= len(asked) <= 8

        with_client(using)


def test_what_is_no_picture_of_the_wanted_kind_is_refused() -> None:
    cases: list[bytes] = [
        answer(PNG, content_type="image/jpeg"),
        answer(b"GIF89a", content_type="image/png"),
        HTML,
    ]
    for picture in cases:

        async def using(server: ScriptedServer, client: BrowserClient) -> None:
            server.script("/screenshot", picture)
            session = await client.get()
            with pytest.raises(ServerUnreachableError):
                await session.screenshot()
            assert server.paths().count("/screenshot") == 3

        with_client(using)


def test_an_answer_without_an_end_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_client, "LARGEST_ANSWER", 1_000)

    async def using(server: ScriptedServer, client: BrowserClient) -> None:
        server.script("/info", answer(b" " * 100_000))
        with pytest.raises(ServerUnreachableError, match="over 1000 bytes"):
            await client.info()

    with_client(using)


# ---- time


def test_a_server_that_never_answers_is_given_up_after_the_deadline() -> None:
    async def using(server: ScriptedServer, client: BrowserClient) -> None:
        for path in ("/step", "/info"):
            server.script(path, never)
        session = await client.get()
        for asking in (session.step(), client.info()):
            began = time.monotonic()
            with pytest.raises(ServerUnreachableError, match="did not answer"):
                await asking
            assert 0.3 <= time.monotonic() - began < 30
        await server.until(lambda: len(server.left) == 2)

    with_client(using, deadline_seconds=0.3)


def test_a_command_may_have_more_time_than_usual_and_sleeping_has_it_by_itself() -> None:
    async def using(server: ScriptedServer, client: BrowserClient) -> None:
        session = await client.get()
        await session.step(commands.Back(), within=80)
        await session.sleep(30)
        await session.step(commands.Back(), within=10_000)
        due = [asked.json()["deadline_seconds"] for asked in server.asked[1:]]
        assert due == [80, 50, 300]

    with_client(using)


def test_the_rollouts_own_deadline_comes_first() -> None:
    async def using(server: ScriptedServer, client: BrowserClient) -> None:
        server.script("/step", never)
        session = await client.get()
        now = asyncio.get_running_loop().time()
        with working_for("task 1", now + 0.3), pytest.raises(StepDeadlineError):
            await session.step()
        with working_for("task 1", now), pytest.raises(StepDeadlineError, match="no time left"):
            await session.step()
        assert 0 < float(server.asked[1].headers["x-rollgym-timeout"]) <= 0.3
        assert server.paths() == ["/get", "/step"]

    with_client(using)


def test_repeated_requests_stay_inside_one_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_client, "REPEATS", (0.2, 300.0))

    async def using(server: ScriptedServer, client: BrowserClient) -> None:
        server.script("/info", HTML)
        began = time.monotonic()
        with pytest.raises(ServerUnreachableError):
            await client.info()
        assert time.monotonic() - began < 30
        assert len(server.asked) == 2

    with_client(using, deadline_seconds=3)


# ---- giving back


def test_a_session_is_given_back_when_its_work_is_cancelled() -> None:
    async def using(server: ScriptedServer, client: BrowserClient) -> None:
        server.script("/step", never)

        async def work() -> None:
            async with client.session() as session:
                await session.step()

        working = asyncio.create_task(work())
        await server.until(lambda: "/step" in server.paths())
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working
        assert server.paths() == ["/get", "/step", "/reset"]
        await server.until(lambda: [asked.path for asked in server.left] == ["/step"])

    with_client(using)


def test_a_session_is_given_back_also_when_that_is_cancelled_too() -> None:
    done = asyncio.Event()

    async def slow(_: Asked) -> bytes:
        await asyncio.sleep(0.2)
        done.set()
        return answer({"status": "success"})

    async def using(server: ScriptedServer, client: BrowserClient) -> None:
        server.script("/reset", slow)

        async def work() -> None:
            async with client.session():
                pass

        working = asyncio.create_task(work())
        await server.until(lambda: "/reset" in server.paths())
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working
        assert not done.is_set()
        await client.close()
        assert done.is_set()

    with_client(using)


def test_a_session_is_given_back_after_the_rollouts_deadline() -> None:
    async def using(server: ScriptedServer, client: BrowserClient) -> None:
        now = asyncio.get_running_loop().time()
        with working_for("task 1", now + 0.2):
            async with client.session():
                await asyncio.sleep(0.25)
        assert server.paths() == ["/get", "/reset"]

    with_client(using)


def test_finished_work_is_not_lost_because_its_session_cannot_be_given_back(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions_module, "RELEASE_SECONDS", 0.3)

    async def using(server: ScriptedServer, client: BrowserClient) -> None:
        for trouble in (HTML, None, never, fault("internal", 500)):
            server.script("/reset", trouble)
            async with client.session():
                pass

    with caplog.at_level(logging.WARNING, "webgym.client"):
        with_client(using)
    assert caplog.text.count("session i-1 was not released") == 4


def test_a_session_is_given_back_to_a_server_that_comes_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sessions_module, "RELEASE_PAUSE", 0.1)

    async def using(server: ScriptedServer, client: BrowserClient) -> None:
        server.script("/reset", *[None] * 6, answer({"status": "success"}))
        async with client.session():
            pass
        assert server.paths().count("/reset") == 7

    with_client(using)


def test_the_error_of_the_work_is_the_one_that_is_raised() -> None:
    async def using(server: ScriptedServer, client: BrowserClient) -> None:
        server.script("/execute", fault("session_lost", 410, "the node died"))
        server.script("/reset", fault("session_lost", 410, "the node died"))
        with pytest.raises(SessionLostError, match="the node died"):
            async with client.session() as session:
                await session.back()

    with_client(using)


def test_waiting_for_a_session_can_be_left() -> None:
    async def using(server: ScriptedServer, client: BrowserClient) -> None:
        server.script("/get", never)
        waiting = asyncio.create_task(client.get())
        await server.until(lambda: bool(server.asked))
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await server.until(lambda: bool(server.left))

    with_client(using)


def test_many_sessions_share_few_connections() -> None:
    async def run() -> None:
        async with scripted() as (server, url), BrowserClient(url, connections=4) as client:

            async def work() -> None:
                async with client.session() as session:
                    for _ in range(5):
                        await session.step()

            await asyncio.gather(*(work() for _ in range(40)))
            assert server.paths().count("/reset") == 40
            assert server.connections <= 4

    asyncio.run(run())


def test_what_is_no_address_is_refused() -> None:
    cases: list[str] = ["localhost:7000", "ftp://x", "", "http://"]
    for url in cases:
        with pytest.raises(ValueError, match="is not the address of a browser server"):
            BrowserClient(url)


def test_a_client_that_is_not_open_says_how_to_open_it() -> None:
    with pytest.raises(RuntimeError, match="async with"):
        asyncio.run(BrowserClient().info())
