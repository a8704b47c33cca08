"""A master and nodes as real processes, which are killed, frozen and started again."""

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import aiohttp
import pytest

from tests.integration.webgym.browser.server.harness import (
    PATIENCE,
    Client,
    eventually,
    in_line,
    nodes_are,
    run,
)
from webgym.browser.settings import TOKEN_VARIABLE

ROOT = Path(__file__).parents[5]
TOKEN = "the-token-of-this-cluster"
SILENCE = 1.5


class Process(NamedTuple):
    """A running server."""

    url: str
    pid: int
    handle: asyncio.subprocess.Process

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    async def kill(self) -> None:
        self.handle.kill()
        await self.handle.wait()


@asynccontextmanager
async def process(port: int = 0, **settings: object) -> AsyncIterator[Process]:
    """A server in a process, for the length of the block at most."""
    handle = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "tests.integration.webgym.browser.server.process", "--end-with-stdin"),
        *("--port", str(port), json.dumps(settings)),
        cwd=ROOT,
        env={**os.environ, TOKEN_VARIABLE: TOKEN},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert handle.stdout
    try:
        async with asyncio.timeout(PATIENCE * 2):
            line = await handle.stdout.readline()
        yield Process(json.loads(line)["url"], handle.pid, handle)
    finally:
        if handle.returncode is None:
            handle.kill()
        await handle.wait()
        assert handle.stdin
        handle.stdin.close()


@pytest.mark.campaign
def test_nodes_and_the_master_are_killed_frozen_and_started_again() -> None:
    async def scenario() -> None:
        async with AsyncExitStack() as stack:

            async def start(port: int = 0, **settings: object) -> Process:
                return await stack.enter_async_context(process(port, **settings))

            async def start_master(port: int = 0) -> Process:
                return await start(port, role="master", silence_seconds=SILENCE, startup_seconds=15)

            async def start_node(port: int = 0) -> Process:
                return await start(port, role="node", master=master.url, capacity=2)

            master = await start_master()
            doomed, sound = await asyncio.gather(start_node(), start_node())
            http = await stack.enter_async_context(aiohttp.ClientSession())
            client = Client(http, master.url, x_api_key=TOKEN)
            await nodes_are(client, True, True)
            await a_node_is_killed(client, doomed, sound)
            again = await start_node(doomed.port)
            await nodes_are(client, True, True)
            await a_node_is_frozen(client, again)
            await master.kill()
            await start_master(master.port)
            await the_master_is_new(client)

    run(scenario())


async def all_leases(client: Client) -> dict[str, list[dict[str, str]]]:
    """Every session there is, by the URL of its node."""
    urls = {node["hash"]: node["url"] for node in await client.nodes()}
    taken: dict[str, list[dict[str, str]]] = {url: [] for url in urls.values()}
    for _ in range(4):
        lease = await client.lease()
        taken[urls[lease["node"]]].append(lease)
    return taken


async def a_node_is_killed(client: Client, doomed: Process, sound: Process) -> None:
    """Its sessions are lost within seconds; those of the other node go on."""
    taken = await all_leases(client)
    busy, idle = taken[doomed.url]
    kept, other = taken[sound.url]
    calling = asyncio.ensure_future(client.visit(busy, "stuck:"))
    await asyncio.sleep(0.2)
    began = time.monotonic()
    await doomed.kill()
    for told in (await calling, await client.visit(idle, "x"), await client.probe(busy)):
        assert (told.status, told.kind) == (410, "session_lost"), told
    assert time.monotonic() - began < 30
    assert (await client.visit(kept, "x")).status == 200
    waiting = asyncio.ensure_future(client.get(wait_seconds=30))
    await in_line(client, 1)
    await client.reset(kept)
    told = await waiting
    assert told.json["node"] == kept["node"]
    assert {node["url"]: node["healthy"] for node in await client.nodes()} == {
        doomed.url: False,
        sound.url: True,
    }
    await client.reset(other)
    await client.reset({"instance_id": told.json["instance_id"], "node": told.json["node"]})


async def a_node_is_frozen(client: Client, frozen: Process) -> None:
    """What was declared lost stays lost; the rest is there when the node wakes up."""
    taken = await all_leases(client)
    told_lost, untouched = taken.pop(frozen.url)
    for lease in next(iter(taken.values())):
        await client.reset(lease)
    calling = asyncio.ensure_future(client.visit(told_lost, "stuck:"))
    await asyncio.sleep(0.2)
    began = time.monotonic()
    os.kill(frozen.pid, signal.SIGSTOP)
    told = await calling
    os.kill(frozen.pid, signal.SIGCONT)
    assert (told.status, told.kind) == (410, "session_lost"), told
    assert "silent" in told.message
    assert time.monotonic() - began < SILENCE + 30
    await nodes_are(client, True, True)
    assert (await client.visit(untouched, "x")).status == 200
    assert (await client.visit(told_lost, "x")).status == 410
    await eventually(
        lambda nodes: all(told_lost["instance_id"] not in node["instances"] for node in nodes),
        client.nodes,
    )


async def the_master_is_new(client: Client) -> None:
    """It knows the sessions of its nodes, and hands out others only."""
    known = await eventually(
        lambda nodes: len(nodes) == 2 and any(node["instances"] for node in nodes), client.nodes
    )
    old = {instance_id: node["hash"] for node in known for instance_id in node["instances"]}
    for instance_id, node in old.items():
        told = await client.probe({"instance_id": instance_id, "node": node})
        assert told.status == 200, told
    new = [await client.get(wait_seconds=2) for _ in range(4 - len(old))]
    assert all(told.status == 200 for told in new)
    assert old.keys().isdisjoint(told.json["instance_id"] for told in new)
    assert (await client.get(wait_seconds=0)).status == 503
