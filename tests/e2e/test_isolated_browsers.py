"""Sessions of the real browser server, used through worker processes."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Iterator

import pytest

from rollgym.records import BrowserError
from tests.e2e.browsing import PATIENCE, VIEWPORT, Server, Site, shared_server, size_of
from tests.integration.webgym.client import worker_functions
from webgym.browser.contract.answers import Observe
from webgym.browser.contract.commands import ClickId, Sleep, VisitPage
from webgym.browser.contract.errors import SessionLostError
from webgym.client import operations
from webgym.client.isolation import IsolatedBrowserClient


@pytest.fixture(scope="module", name="browser")
def own_server() -> Iterator[Server]:
    yield from shared_server("--capacity", "2")


Scenario = Callable[[Site, IsolatedBrowserClient], Awaitable[None]]
PAGE = "<!doctype html><title>Shop</title><button onclick=\"document.title='Bought'\">Buy</button>"


def test_an_episode_is_played_through_workers(browser: Server) -> None:
    async def scenario(site: Site, client: IsolatedBrowserClient) -> None:
        site.pages["/"] = PAGE
        session = await client.get()
        seen = await session.step(VisitPage(site.url), Observe("set_of_marks", tree=True))
        assert size_of(seen.screenshot) == VIEWPORT
        assert seen.elements
        assert seen.tree
        bought = await session.step(ClickId(seen.elements[0].id))
        assert bought.page.title == "Bought"
        named: operations.SessionAddress = {
            "instance_id": session.lease.instance_id,
            "node": session.lease.node,
        }
        page = await client.ask(operations.page_metadata, named, within=None)
        assert page["title"] == "Bought"
        assert size_of(await session.screenshot()) == VIEWPORT
        assert (await session.metadata()).width == VIEWPORT[0]
        await client.release(session)
        with pytest.raises(SessionLostError):
            await session.step()

    _play(browser, scenario)


def test_a_killed_worker_costs_its_step_and_the_session_goes_on(browser: Server) -> None:
    async def scenario(site: Site, client: IsolatedBrowserClient) -> None:
        site.pages["/"] = PAGE
        async with client.session() as session:
            await session.step(VisitPage(site.url))
            pid = await client.isolator.run(worker_functions.process_id, within=30)
            sleeping = asyncio.create_task(session.step(Sleep(30)))
            await asyncio.sleep(0.5)
            os.kill(pid, signal.SIGKILL)
            with pytest.raises(BrowserError, match="was lost"):
                await sleeping
        async with client.session() as another:
            assert (await another.step(VisitPage(site.url))).page.title == "Shop"

    _play(browser, scenario)


def _play(browser: Server, scenario: Scenario) -> None:
    async def run() -> None:
        async with (
            asyncio.timeout(PATIENCE),
            Site().serving() as site,
            IsolatedBrowserClient(browser.url, deadline_seconds=30, workers=1) as client,
        ):
            await scenario(site, client)

    asyncio.run(run())
