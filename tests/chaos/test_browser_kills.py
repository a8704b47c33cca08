"""Sessions at work, and something is killed: pages, a browser, a node, the master.

Sessions that worked there get a typed error, all others notice nothing, everything is back after a
moment, and no process stays behind.
"""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from tests.chaos.browser_cluster import Load, ServerProcess, pages, until
from webgym.browser.contract.commands import ClickCoords, VisitPage
from webgym.client.client import BrowserClient

MOST_KILLS = 10
"""All sessions of the victim may have just ended, so that the first kill may have no effect."""
ALLOWED = ("--allow-network", "127.0.0.1")
GROWTH = 1.5

pytestmark = pytest.mark.timeout(300)
many = pytest.mark.parametrize("workers", [4, pytest.param(16, marks=pytest.mark.campaign)])


@asynccontextmanager
async def at_work(url: str, workers: int) -> AsyncIterator[Load]:
    """Workers that have all finished an episode when the block begins."""
    async with pages() as site, BrowserClient(url) as client, asyncio.TaskGroup() as group:
        load = Load(client, site, workers)
        for name in range(workers):
            group.create_task(load.work(name))
        await load.everybody_finishes(1, "the beginning")
        yield load
        load.end()


async def all_free(url: str, capacity: int) -> None:
    """Until every session is free again."""
    async with BrowserClient(url) as client:
        deadline = time.monotonic() + 60
        while (info := await client.info()).available != capacity:
            assert time.monotonic() < deadline, info
            await asyncio.sleep(0.1)


async def restarted(node: ServerProcess, times: int) -> None:
    """Kill a node, wait until its browsers have ended with it, and start it again."""
    pids = node.processes("browser") + node.processes("renderer")
    node.kill()
    await until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), "browsers end")
    node.start()
    await node.is_ready(times)


@many
def test_killed_pages_and_browsers_end_their_own_sessions_only(
    tmp_path: Path, workers: int
) -> None:
    per_browser = workers // 2
    options = ("--capacity", str(workers), "--sessions-per-browser", str(per_browser), *ALLOWED)
    server = ServerProcess(tmp_path, "server", *options)

    async def pages_killed() -> None:
        async with at_work(server.url, workers) as load:
            for pid in server.processes("renderer")[:3]:
                with suppress(ProcessLookupError):  # its episode may have ended just now
                    os.kill(pid, signal.SIGKILL)
            await load.everybody_finishes(2, "after the kill")
        if "SIGSEGV" in server.said:
            # Now and then Chromium itself crashes when it loses a page's process (1 to 5 in 100).
            assert set(load.errors) <= {"page_crashed", "session_lost"}, load.errors
        else:
            assert set(load.errors) <= {"page_crashed"}, load.errors
            assert load.errors.total() <= 3

    async def browser_killed() -> None:
        async with at_work(server.url, workers) as load:
            for _ in range(MOST_KILLS):
                await until(lambda: len(server.browsers()) >= 2, "there are two browsers")
                killed = server.busiest_browser()
                with suppress(ProcessLookupError):
                    os.killpg(killed, signal.SIGKILL)
                await load.everybody_finishes(1, "after the kill")
                if load.errors:
                    break
        assert set(load.errors) == {"session_lost"}, load.errors
        assert load.errors["session_lost"] <= per_browser
        assert killed not in server.browsers()

    async def scenario() -> None:
        await server.is_ready()
        await pages_killed()
        await all_free(server.url, workers)
        await until(lambda: not server.processes("renderer"), "renderers end")
        memory = server.memory()
        await browser_killed()
        await all_free(server.url, workers)
        await until(lambda: not server.processes("renderer"), "renderers end")
        assert len(server.browsers()) <= 3
        await until(lambda: server.memory() < GROWTH * memory, f"memory returns to {memory}")

    try:
        asyncio.run(scenario())
    finally:
        server.stop()


async def keeps_its_session(master: ServerProcess) -> None:
    """A session outlives the third start of its master."""
    async with pages() as site, BrowserClient(master.url) as client, client.session() as session:
        await session.step(VisitPage(f"{site}/?name=me"))
        master.kill()
        master.start()
        await master.is_ready(times=3)
        answer = await session.step(ClickCoords(20, 20))
        assert answer.page.title == ", before: me"


@many
def test_killed_nodes_and_masters_come_back(tmp_path: Path, workers: int) -> None:
    per_node = workers // 2
    master = ServerProcess(tmp_path, "master", "--role", "master")
    options = ["--role", "node", "--master", master.url, "--capacity", str(per_node)]
    options += ["--first-use-seconds", "10", *ALLOWED]
    nodes = [ServerProcess(tmp_path, f"node{number}", *options) for number in range(2)]

    async def node_killed() -> None:
        node = nodes[0]
        async with at_work(master.url, workers) as load:
            for kills in range(1, MOST_KILLS + 1):
                await until(lambda: load.sessions_at(node.url) > 0, "the node has a session")
                await restarted(node, kills + 1)
                await load.everybody_finishes(1, "after the node is back")
                if load.errors:
                    break
        assert load.errors, "the loss of a node is reported"
        assert set(load.errors) <= {"session_lost", "no_session"}, load.errors
        assert load.errors["session_lost"] <= per_node

    async def master_killed() -> None:
        async with at_work(master.url, workers) as load:
            master.kill()
            master.start()
            await master.is_ready(times=2)
            await load.everybody_finishes(1, "after the master is back")
        assert set(load.errors) <= {"unreachable", "session_lost", "no_session"}, load.errors
        # A step that was running has an unknown end. The sessions themselves live on, unless a busy
        # machine kept a node from reporting in time.
        if "its sessions are lost" not in master.said.rpartition(" ready at ")[2]:
            assert load.errors["session_lost"] == 0, load.errors

    async def scenario() -> None:
        for server in (master, *nodes):
            await server.is_ready()
        for part in (node_killed, master_killed):
            await all_free(master.url, workers)
            await part()
        await keeps_its_session(master)
        await until(lambda: not nodes[0].processes("renderer"), "renderers end")

    try:
        asyncio.run(scenario())
    finally:
        for server in (*nodes, master):
            server.stop()
