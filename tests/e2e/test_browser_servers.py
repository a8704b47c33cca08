"""Servers of several roles, as an operator starts them."""

import asyncio
from pathlib import Path

from tests.chaos.browser_cluster import ServerProcess
from webgym.browser.contract.commands import VisitPage
from webgym.client.client import BrowserClient


def test_no_page_reaches_the_servers_that_run_it(tmp_path: Path) -> None:
    """Not even where the operator allows every port of the machine."""
    master = ServerProcess(tmp_path, "master", "--role", "master")
    options = ("--master", master.url, "--capacity", "1", "--allow-network", "loopback")
    node = ServerProcess(tmp_path, "node", "--role", "node", *options)

    async def scenario() -> None:
        await master.is_ready()
        await node.is_ready()
        async with BrowserClient(master.url) as client, client.session() as session:
            for server in (master, node):
                for url in (server.url, f"http://localhost:{server.port}/info"):
                    answer = await session.step(VisitPage(url))
                    assert answer.error is not None
                    assert answer.error.type == "navigation_refused"
                    assert "belongs to the browser server itself" in answer.error.message

    try:
        asyncio.run(scenario())
    finally:
        node.stop()
        master.stop()
