"""A browser that answers and draws nothing, behind the real server: it is replaced."""

import asyncio
import os
import signal
from collections.abc import Iterator

import pytest

from tests.e2e.browsing import VIEWPORT, Server, Visitor, shared_server, size_of
from webgym.browser.contract.errors import SessionLostError, StepDeadlineError


@pytest.fixture(scope="module", name="browser")
def own_server() -> Iterator[Server]:
    yield from shared_server("--capacity", "4")


SOON = 12.5
"""Little more than a recovery takes."""
PAGE = "<title>Calm</title><button>Push</button>"


@pytest.mark.campaign
def test_a_browser_whose_pages_are_no_longer_drawn_is_replaced(browser: Server) -> None:
    async def meets_its_deadline(visitor: Visitor) -> None:
        with pytest.raises(StepDeadlineError):
            await visitor.session.step(within=SOON)

    async def scenario(visitor: Visitor) -> None:
        async with visitor.another() as other:
            await visitor.show(PAGE)
            await other.show(PAGE)
            for drawing in browser.processes("gpu-process"):
                os.kill(drawing, signal.SIGSTOP)
            await asyncio.gather(meets_its_deadline(visitor), meets_its_deadline(other))
            for each in (visitor, other):
                with pytest.raises(SessionLostError, match="no longer draws pages"):
                    await each.session.step(within=SOON)
            async with visitor.another() as fresh:
                assert size_of((await fresh.show(PAGE)).screenshot) == VIEWPORT

    browser.browse(scenario)
