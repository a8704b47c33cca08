"""A master and nodes in one process, with real sockets between them."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import aiohttp
import pytest

from tests.integration.webgym.browser.server.fake_pool import FakePool
from tests.integration.webgym.browser.server.harness import (
    Client,
    Nodes,
    Served,
    Told,
    client_of,
    eventually,
    in_line,
    nodes_are,
    run,
    server,
    until,
)
from tests.integration.webgym.browser.server.scripted_node import ScriptedNode
from webgym.browser.contract.errors import NoSessionError
from webgym.browser.master.registration import node_hash


@asynccontextmanager
async def cluster(*pools: FakePool, **settings: Any) -> AsyncIterator[tuple[Client, list[Served]]]:
    """A master with a node for each pool."""
    async with client_of(None, role="master", **settings) as client, Nodes(client.url) as nodes:
        served = [await nodes.add(pool) for pool in pools]
        await nodes_are(client, *(True for _ in pools))
        yield client, served
    for pool in pools:
        pool.check()


def of(told: Told) -> dict[str, str]:
    assert told.status == 200, told
    return {name: told.json[name] for name in ("instance_id", "node")}


def test_sessions_are_spread_by_how_much_room_there_is() -> None:
    async def scenario() -> None:
        async with cluster(FakePool(6), FakePool(3)) as (client, nodes):
            leases = [await client.lease() for _ in range(6)]
            placed = Counter(lease["node"] for lease in leases)
            assert placed == {node_hash(nodes[0].url): 4, node_hash(nodes[1].url): 2}
            for lease in leases:
                assert (await client.visit(lease, lease["instance_id"])).status == 200

    run(scenario())


def test_everybody_waits_at_the_master_for_any_node() -> None:
    async def scenario() -> None:
        pools = FakePool(1), FakePool(1)
        async with cluster(*pools) as (client, _):
            first, second = [await client.lease() for _ in range(2)]
            waiting = [asyncio.ensure_future(client.get()) for _ in range(2)]
            await in_line(client, 2)
            for lease in (second, first):
                await client.reset(lease)
                done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                (answered,) = done
                assert of(answered.result())["node"] == lease["node"]
                waiting.remove(answered)

    run(scenario())


def test_many_clients_at_once_get_every_session_once() -> None:
    async def scenario() -> None:
        async with cluster(FakePool(8), FakePool(8), FakePool(4)) as (client, _):
            leases = [of(told) for told in await asyncio.gather(*(client.get() for _ in range(20)))]
            assert len({lease["instance_id"] for lease in leases}) == 20
            assert sorted(Counter(lease["node"] for lease in leases).values()) == [4, 8, 8]

    run(scenario())


def test_room_that_becomes_free_by_itself_is_noticed_soon() -> None:
    async def scenario() -> None:
        pool = FakePool(1)
        async with cluster(pool) as (client, _):
            await client.lease()
            waiting = asyncio.ensure_future(client.get())
            await in_line(client, 1)
            pool.kill()
            assert (await waiting).status == 200

    run(scenario())


def test_a_node_that_is_stopped_loses_its_sessions_at_once() -> None:
    async def scenario() -> None:
        pools = FakePool(1), FakePool(1)
        async with client_of(None, role="master") as client, Nodes(client.url) as nodes:
            urls = [(await nodes.add(pool)).url for pool in pools]
            await nodes_are(client, True, True)
            leases = {lease["node"]: lease for lease in [await client.lease() for _ in pools]}
            lost, kept = (leases[node_hash(url)] for url in urls)
            calling = asyncio.ensure_future(client.visit(lost, "stuck:"))
            await until(lambda: any(session.busy.is_set() for session in pools[0].sessions))
            await nodes.stop(urls[0])
            for told in (await calling, await client.visit(lost, "x")):
                assert (told.status, told.kind) == (410, "session_lost")
            assert (await client.visit(kept, "x")).status == 200
            states = {node["hash"]: node["healthy"] for node in await client.nodes()}
            assert states == {lost["node"]: False, kept["node"]: True}

    run(scenario())


def test_a_node_that_was_started_anew_has_its_old_name_and_no_old_sessions() -> None:
    async def scenario() -> None:
        async with client_of(None, role="master") as client, Nodes(client.url) as nodes:
            first = await nodes.add(FakePool(1))
            await nodes_are(client, True)
            old = await client.lease()
            await nodes.stop(first.url)
            await nodes_are(client, False)
            waiting = asyncio.ensure_future(client.get())
            await nodes.add(FakePool(1), first.port)
            new = of(await waiting)
            assert new["node"] == old["node"]
            assert new["instance_id"] != old["instance_id"]
            assert (await client.visit(old, "x")).status == 410
            assert (await client.visit(new, "x")).status == 200

    run(scenario())


def test_a_master_that_was_started_anew_knows_everything_again() -> None:
    async def scenario() -> None:
        pool = FakePool(2)
        async with AsyncExitStack() as stack:
            http = await stack.enter_async_context(aiohttp.ClientSession())
            async with server(None, role="master") as master:
                nodes = await stack.enter_async_context(Nodes(master.url))
                await nodes.add(pool)
                client = master.client(http)
                await nodes_are(client, True)
                lease = await client.lease()
                await client.visit(lease, "before")
            async with server(None, role="master", port=master.port):
                # It has not heard of the node yet, and waits for it.
                assert (await client.visit(lease, "after")).status == 200
                assert pool.sessions[0].visited == ["before", "after"]
                (node,) = await client.nodes()
                assert node["instances"] == [lease["instance_id"]]
                other = await client.lease()
                assert other["instance_id"] != lease["instance_id"]
                full = await client.get(wait_seconds=0)
                assert full.status == 503
        pool.check()

    run(scenario())


def test_a_node_that_cannot_open_sessions_is_left_alone_for_a_while() -> None:
    async def scenario() -> None:
        broken, sound = FakePool(8), FakePool(2)
        broken.trouble = NoSessionError("no memory")
        async with cluster(broken, sound) as (client, nodes):
            leases = [await client.lease() for _ in range(2)]
            assert {lease["node"] for lease in leases} == {node_hash(nodes[1].url)}
            told = await client.get(wait_seconds=0.3)
            assert (told.status, told.kind) == (503, "no_session")
            assert "no memory" in told.message
            broken.trouble = None
            assert of(await client.get())["node"] == node_hash(nodes[0].url)

    run(scenario())


def test_nodes_that_share_an_address_are_told() -> None:
    async def scenario() -> None:
        async with client_of(None, role="master") as client:
            said = {"url": "http://127.0.0.1:9", "capacity": 1, "available": 1}
            for boot, status in (("a", 200), ("b", 200), ("a", 409), ("b", 200)):
                told = await client.ask("POST", "/register", {**said, "boot": boot})
                assert told.status == status
            refused = await client.ask("POST", "/register", {**said, "boot": "a"})
            assert "give each its own --url" in refused.message

    run(scenario())


def test_an_unreachable_node_is_not_used() -> None:
    async def scenario() -> None:
        pool = FakePool(1)
        async with cluster(pool) as (client, _):
            url = "http://127.0.0.1:9"
            said = {"url": url, "boot": "a", "capacity": 99, "available": 99}
            assert (await client.ask("POST", "/register", said)).status == 200
            lease = await client.lease()
            assert (await client.visit(lease, "x")).status == 200
            told = await client.probe({"instance_id": "i", "node": node_hash(url)})
            assert (told.status, told.kind) == (410, "session_lost")
            assert "cannot be reached" in told.message

    run(scenario())


def test_a_session_whose_request_broke_off_is_lost_for_good_and_closed() -> None:
    async def scenario() -> None:
        async with client_of(None, role="master") as client, ScriptedNode(client) as node:
            lease, other = await client.lease(), await client.lease()
            node.breaks_off = True
            told = await client.visit(lease, "x")
            assert (told.status, told.kind) == (410, "session_lost")
            assert "cannot be reached" in told.message
            node.breaks_off = False
            again = await client.visit(lease, "x")
            assert again.status == 410, "the client was told that it is lost"
            assert (await client.visit(other, "x")).status == 200
            assert await node.register() == [lease["instance_id"]]

    run(scenario())


def test_a_silent_node_is_lost_until_it_speaks_again() -> None:
    async def scenario() -> None:
        async with (
            client_of(None, role="master", silence_seconds=0.5) as client,
            ScriptedNode(client) as node,
        ):
            asked, unasked = await client.lease(), await client.lease()
            node.hangs = True
            calling = asyncio.ensure_future(client.visit(asked, "x"))
            node.speaks = False
            told = await calling
            assert (told.status, told.kind) == (410, "session_lost")
            assert "has been silent for" in told.message
            await nodes_are(client, False)
            node.hangs = False
            assert await node.register() == [asked["instance_id"]]
            assert (await client.visit(unasked, "x")).status == 200
            assert (await client.visit(asked, "x")).status == 410

    run(scenario())


def test_a_master_that_stood_still_does_not_blame_its_nodes() -> None:
    async def scenario() -> None:
        async with (
            client_of(None, role="master", silence_seconds=0.5) as client,
            ScriptedNode(client) as node,
        ):
            lease = await client.lease()
            node.hangs = True
            calling = asyncio.ensure_future(client.visit(lease, "x"))
            await until(lambda: node.hanging == 1)
            time.sleep(1.5)  # noqa: ASYNC251 - the whole process stands still
            await asyncio.sleep(0.3)
            assert not calling.done()
            calling.cancel()
            node.hangs = False
            assert (await client.visit(lease, "x")).status == 200

    run(scenario())


def test_a_node_that_was_started_anew_without_a_word_has_lost_its_sessions() -> None:
    async def scenario() -> None:
        async with client_of(None, role="master") as client, ScriptedNode(client) as node:
            busy, idle = await client.lease(), await client.lease()
            await node.register()
            node.hangs = True
            calling = asyncio.ensure_future(client.visit(busy, "x"))
            await until(lambda: node.hanging == 1)
            node.start_anew()
            node.hangs = False
            for told in (await calling, await client.visit(idle, "x")):
                assert (told.status, told.kind) == (410, "session_lost")
                assert "was restarted" in told.message
            assert (await client.visit(await client.lease(), "x")).status == 200

    run(scenario())


def test_a_session_that_was_opened_too_late_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        monkeypatch.setattr("webgym.browser.master.remote.GRACE", 0.0)
        async with (
            client_of(None, role="master", open_seconds=0.1) as client,
            ScriptedNode(client) as node,
        ):
            node.opens_after = 1000.0
            told = await client.get(wait_seconds=0)
            assert (told.status, told.kind) == (503, "no_session")
            (asked_for,) = node.asked_for
            await until(lambda: asked_for in node.reset)
            assert await node.register(also=[asked_for]) == [asked_for]

    run(scenario())


@pytest.mark.parametrize("status", [200, 502])
def test_what_a_node_says_is_passed_on_as_it_is(status: int) -> None:
    async def scenario() -> None:
        async with client_of(None, role="master") as client, ScriptedNode(client) as node:
            lease = await client.lease()
            node.answer = status, "text/plain", b"\x00\xff" * 3_000_000
            told = await client.ask("GET", "/screenshot", **lease)
            assert (told.status, told.headers["content-type"]) == (status, "text/plain")
            assert told.body == b"\x00\xff" * 3_000_000

    run(scenario())


def test_a_master_tells_when_no_node_is_up() -> None:
    async def scenario() -> None:
        async with client_of(None, role="master") as client:
            told = await client.get(wait_seconds=0.05)
            assert (told.status, told.kind) == (503, "no_session")
            assert "no node is up" in told.message
            assert (await eventually(lambda nodes: True, client.nodes)) == []

    run(scenario())
