"""Clients that come, work, vanish and forget, while browsers and nodes die under them.

Whatever the order of events: no session is handed to two clients, no pool opens more than it has
room for, and in the end nothing is left.
"""

import asyncio
import contextlib
import random
from typing import Any

import aiohttp
import pytest

from tests.integration.webgym.browser.server.fake_pool import FakePool
from tests.integration.webgym.browser.server.harness import (
    Client,
    Nodes,
    client_of,
    nodes_are,
    run,
    server,
)

CLIENTS = 50
SECONDS = 2.5


class Storm:
    """The clients, and what they saw."""

    def __init__(self, url: str, http: aiohttp.ClientSession, seed: int) -> None:
        self._url = url
        self._http = http
        self._random = random.Random(seed)
        self.handed_out: list[str] = []
        self.steps = 0
        self.lost = 0

    async def blow(self) -> None:
        until = asyncio.get_running_loop().time() + SECONDS
        async with asyncio.TaskGroup() as clients:
            for number in range(CLIENTS):
                clients.create_task(self._client(f"client-{number}", until))

    async def _client(self, name: str, until: float) -> None:
        client = Client(self._http, self._url, x_client_id=name)
        while asyncio.get_running_loop().time() < until:
            # A client may hang up at any moment of its life.
            patience = self._random.choice([0.005, 0.05, 10.0])
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(patience):
                    await self._episode(client, name)

    async def _episode(self, client: Client, name: str) -> None:
        told = await client.get(wait_seconds=self._random.choice([0, 0.1, 5]))
        if told.status != 200:
            assert told.kind == "no_session", told
            await asyncio.sleep(0.01)
            return
        lease = {key: told.json[key] for key in ("instance_id", "node")}
        self.handed_out.append(lease["instance_id"])
        for _ in range(self._random.randrange(4)):
            told = await client.visit(
                lease, self._random.choice([name, f"stuck: {name}"]), deadline_seconds=0.05
            )
            assert told.status in (200, 410, 504), told
            self.steps += told.status == 200
            if told.status == 410:
                self.lost += 1
                return
        if self._random.random() < 0.8:
            told = await client.reset(lease)
            assert told.status in (200, 410), told


def check(storm: Storm, pools: list[FakePool]) -> None:
    assert storm.steps > 0
    assert len(set(storm.handed_out)) == len(storm.handed_out)
    for pool in pools:
        for session in pool.sessions:
            visitors = {url.rpartition(" ")[2] for url in session.visited}
            assert len(visitors) <= 1, f"session {session.number} was used by {visitors}"
        pool.check()


async def kill_sessions(pools: list[FakePool], chance: random.Random) -> None:
    while True:
        await asyncio.sleep(0.02)
        pool = chance.choice(pools)
        if pool.open:
            chance.choice(sorted(pool.open, key=lambda each: each.number)).lose("it crashed")


@pytest.fixture(autouse=True)
def in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webgym.browser.node.CHECK_INTERVAL", 0.05)
    monkeypatch.setattr("webgym.browser.node.GRACE", 0.02)


SHORT: dict[str, Any] = {"idle_seconds": 0.3, "queue_size": 30}


seeds = pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.campaign)])


@seeds
def test_one_server_in_a_storm(seed: int) -> None:
    async def scenario() -> None:
        pools = [FakePool(6)]
        async with client_of(pools[0], **SHORT) as client, aiohttp.ClientSession() as http:
            killing = asyncio.ensure_future(kill_sessions(pools, random.Random(seed)))
            storm = Storm(client.url, http, seed)
            await storm.blow()
            killing.cancel()
        check(storm, pools)

    run(scenario())


@seeds
def test_a_master_and_nodes_in_a_storm(seed: int) -> None:
    """Nodes are stopped and started meanwhile."""

    async def scenario() -> None:
        pools = [FakePool(3) for _ in range(3)]
        async with contextlib.AsyncExitStack() as stack:
            http = await stack.enter_async_context(aiohttp.ClientSession())
            master = await stack.enter_async_context(server(None, role="master", **SHORT))
            nodes = await stack.enter_async_context(Nodes(master.url, **SHORT))
            client = master.client(http)
            ports = {pool: (await nodes.add(pool)).port for pool in pools}
            await nodes_are(client, True, True, True)
            chance = random.Random(seed)
            killing = asyncio.ensure_future(kill_sessions(pools, chance))
            restarting = asyncio.ensure_future(restart(nodes, ports, pools, chance))
            storm = Storm(client.url, http, seed)
            await storm.blow()
            killing.cancel()
            await restarting
        check(storm, pools)

    run(scenario())


async def restart(
    nodes: Nodes, ports: dict[FakePool, int], pools: list[FakePool], chance: random.Random
) -> None:
    for _ in range(3):
        await asyncio.sleep(0.4)
        old = chance.choice(sorted(ports, key=ports.__getitem__))
        port = ports.pop(old)
        await nodes.stop(f"http://127.0.0.1:{port}")
        new = FakePool(3)
        pools.append(new)
        ports[new] = (await nodes.add(new, port)).port
