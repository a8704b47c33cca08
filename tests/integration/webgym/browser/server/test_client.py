"""The client that comes along, against the server it was written for."""

import pytest

from tests.integration.webgym.browser.server.fake_pool import PICTURE, FakePool
from tests.integration.webgym.browser.server.harness import Topology, over_both, reached, run
from webgym.browser.contract.answers import Observe
from webgym.browser.contract.commands import VisitPage
from webgym.browser.contract.errors import (
    NoSessionError,
    PageCrashedError,
    SessionLostError,
    StepDeadlineError,
    UnauthorizedError,
)
from webgym.client.client import BrowserClient

TOKEN = "the-token-of-this-test"


@over_both
def test_the_client_and_the_server_understand_each_other(topology: Topology) -> None:
    async def scenario() -> None:
        pool = FakePool(1)
        async with (
            reached(topology, pool, TOKEN) as served,
            BrowserClient(served.url, TOKEN) as client,
        ):
            async with client.session(lifetime_mins=5) as session:
                answer = await session.step(VisitPage("http://x"), Observe(tree=True))
                assert answer.page.url == "http://x"
                assert answer.screenshot is not None
                assert answer.screenshot.data == PICTURE
                assert (await session.screenshot()).data.startswith(PICTURE)
                assert await session.get_webpage_text() == "http://x"
                assert (await session.metadata()).width == 1280
                assert await session.probe()
                failed = await session.step(VisitPage("crash:"))
                assert failed.error is not None
                assert failed.error.type == PageCrashedError.type
                with pytest.raises(PageCrashedError, match="the page crashed"):
                    await session.execute(VisitPage("crash:"))
                with pytest.raises(StepDeadlineError):
                    await session.execute(VisitPage("hang:"), within=0.2)
                with pytest.raises(NoSessionError, match="all 1 sessions are in use"):
                    await client.get(wait_seconds=0)
                pool.kill("its browser died")
                with pytest.raises(SessionLostError, match="its browser died"):
                    await session.execute(VisitPage("http://x"))
                assert not await session.probe()
            async with client.session() as session:
                assert await session.probe()
            assert (await client.info()).available == 1
        pool.check()

    run(scenario())


def test_a_wrong_token_is_reported_to_the_client() -> None:
    async def scenario() -> None:
        async with (
            reached("one server", FakePool(1), TOKEN) as served,
            BrowserClient(served.url, "wrong") as client,
        ):
            with pytest.raises(UnauthorizedError, match="the token is wrong"):
                await client.get()

    run(scenario())
