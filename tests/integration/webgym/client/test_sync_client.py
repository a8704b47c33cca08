import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.integration.webgym.client.scripted_server import (
    PNG,
    ScriptedServer,
    answer,
    fault,
    never,
    scripted,
)
from webgym.browser import http_client
from webgym.browser.contract import commands
from webgym.browser.contract.errors import (
    NoSessionError,
    ServerUnreachableError,
    UnknownElementError,
)
from webgym.client.client import BrowserSession
from webgym.client.sync_client import SyncBrowserClient, SyncBrowserSession


@contextmanager
def scripted_elsewhere() -> Iterator[tuple[ScriptedServer, str]]:
    """A server in a thread of its own."""
    ready, stop = threading.Event(), asyncio.Event()
    found: list[tuple[ScriptedServer, str, asyncio.AbstractEventLoop]] = []

    async def serve() -> None:
        async with scripted() as (server, url):
            found.append((server, url, asyncio.get_running_loop()))
            ready.set()
            await stop.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert ready.wait(60)
    server, url, loop = found[0]
    try:
        yield server, url
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(10)


@pytest.fixture
def served() -> Iterator[tuple[ScriptedServer, str]]:
    before = threading.active_count()
    with scripted_elsewhere() as served:
        yield served
    assert threading.active_count() == before


Served = tuple[ScriptedServer, str]


def test_everything_works_without_await(served: Served) -> None:
    server, url = served
    with SyncBrowserClient(url) as client:
        with client.session(wait_seconds=5) as session:
            session.visit_page("http://shop.test/")
            step = session.step(commands.ClickCoords(1, 2))
            assert step.page.title == "Shop"
            assert session.probe()
            assert session.metadata().width == 800
            assert session.screenshot().data == PNG
            assert session.lease.node == "n-1"
        assert client.info().nodes == ()
    assert server.paths()[:3] == ["/get", "/execute", "/step"]
    assert server.paths()[-2:] == ["/reset", "/info"]


def test_it_has_the_methods_of_the_asynchronous_session() -> None:
    public = {name for name in vars(BrowserSession) if not name.startswith("_")}
    assert public <= set(vars(SyncBrowserSession))
    assert SyncBrowserSession.step.__doc__ == BrowserSession.step.__doc__


def test_errors_are_the_same(served: Served) -> None:
    server, url = served
    server.script("/execute", fault("unknown_element", 422, "there is no [7]"))
    with SyncBrowserClient(url) as client, client.session() as session:
        with pytest.raises(UnknownElementError, match="there is no \\[7\\]"):
            session.click_id(7)
        server.script("/get", fault("no_session", 503, "all are taken", retry_after="9"))
        with pytest.raises(NoSessionError, match="all are taken"):
            client.get(wait_seconds=0)


def test_it_works_inside_a_running_event_loop(served: Served) -> None:
    async def notebook() -> str:
        with SyncBrowserClient(served[1]) as client, client.session() as session:
            return session.step().page.url

    assert asyncio.run(notebook()) == "http://shop.test/"


def test_a_notebook_shows_a_session_as_its_page(served: Served) -> None:
    with SyncBrowserClient(served[1]) as client:
        session = client.get()
        assert session._repr_png_() == PNG
        assert session.show("set_of_marks")._repr_png_() == PNG
    assert served[0].asked[2].query["interaction_mode"] == "set_of_marks"


def test_closing_gives_back_what_was_forgotten_and_leaves_no_thread(served: Served) -> None:
    server, url = served
    before = threading.active_count()
    client = SyncBrowserClient(url)
    client.get()
    kept = client.get()
    kept.reset()
    client.close()
    client.close()
    assert server.paths() == ["/get", "/get", "/reset", "/reset"]
    assert threading.active_count() == before
    with pytest.raises(RuntimeError, match="the client is closed"):
        kept.probe()


def test_closing_inside_the_block_of_a_session_is_no_error(served: Served) -> None:
    client = SyncBrowserClient(served[1])
    with client.session():
        client.close()
    assert served[0].paths() == ["/get", "/reset"]


def test_calls_end_at_their_deadline(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_client, "SLACK", 0.1)
    server, url = served
    server.script("/step", never)
    with SyncBrowserClient(url, deadline_seconds=0.2) as client, client.session() as session:
        with pytest.raises(ServerUnreachableError, match="did not answer"):
            session.step()
        with pytest.raises(ServerUnreachableError, match="did not answer"):
            session.step(within=0.1)


def test_an_interrupted_call_ends_its_request(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, url = served
    server.script("/step", never)
    with SyncBrowserClient(url) as client:
        session = client.get()

        def interrupted(*_: object) -> None:
            while "/step" not in server.paths():
                pass
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr("concurrent.futures.Future.result", interrupted)
            with pytest.raises(KeyboardInterrupt):
                session.step()
        server.script("/step", answer({"page": {"url": "", "title": "back"}, "result": {}}))
        assert session.step().page.title == "back"
    assert [asked.path for asked in server.left] == ["/step"]


def test_several_threads_share_a_client(served: Served) -> None:
    server, url = served
    with SyncBrowserClient(url) as client:

        def work() -> None:
            with client.session() as session:
                session.step()

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
    assert server.paths().count("/reset") == 8
