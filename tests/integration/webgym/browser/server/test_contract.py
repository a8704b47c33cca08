"""Every route over real HTTP, to one server and through a master."""

import asyncio
import base64
import time

import aiohttp
import pytest

from tests.integration.webgym.browser.server.fake_pool import PICTURE, FakePool
from tests.integration.webgym.browser.server.harness import (
    Topology,
    eventually,
    over_both,
    reached,
    run,
    until,
)


@over_both
def test_a_session_from_its_beginning_to_its_end(topology: Topology) -> None:
    async def scenario() -> None:
        pool = FakePool(2)
        async with reached(topology, pool) as client:
            told = await client.get(lifetime_mins=5)
            assert told.status == 200
            assert {"instance_id", "node"} <= set(told.json)
            assert told.json["lifetime_mins"] == 5
            lease = await client.lease()
            assert (await client.visit(lease, "http://x")).json == {"status": "success"}
            text = await client.ask("POST", "/execute", {**lease, "get_webpage_text": {}})
            assert text.json == {"text": "http://x"}
            assert (await client.reset(lease)).json == {"status": "success"}
            again = await client.reset(lease)
            assert again.status == 200
            assert "released by /reset" in again.json["note"]
            late = await client.visit(lease, "http://x")
            assert (late.status, late.kind) == (410, "session_lost")
            assert "released by /reset" in late.message
            assert len(pool.open) == 1
        pool.check()

    run(scenario())


@over_both
def test_a_step_answers_with_everything(topology: Topology) -> None:
    async def scenario() -> None:
        async with reached(topology, FakePool()) as client:
            lease = await client.lease()
            observe = {"interaction_mode": "set_of_marks", "screenshot": "webp"}
            body = {**lease, "visit_page": {"url": "http://x"}, "observe": observe}
            told = await client.ask("POST", "/step", {**body, "deadline_seconds": 20})
            assert told.status == 200
            assert told.json["page"]["url"] == "http://x"
            assert told.json["result"] == {"status": "success"}
            assert told.json["screenshot"]["media_type"] == "image/webp"
            assert base64.b64decode(told.json["screenshot"]["data"]) == PICTURE
            assert told.json["elements"][0]["name"] == "Home"
            looked = await client.ask("POST", "/step", lease)
            assert looked.json["page"]["url"] == "http://x"
            failed = await client.ask("POST", "/step", {**lease, "visit_page": {"url": "crash:"}})
            assert failed.status == 200
            assert failed.json["error"] == {"type": "page_crashed", "message": "the page crashed"}

    run(scenario())


@over_both
def test_screenshots_are_pictures(topology: Topology) -> None:
    async def scenario() -> None:
        async with reached(topology, FakePool()) as client:
            lease = await client.lease()
            plain = await client.ask("GET", "/screenshot", **lease, interaction_mode="")
            assert plain.headers["content-type"] == "image/png"
            assert plain.body == PICTURE + b"set_of_marks 80"
            chosen = {"interaction_mode": "coordinates", "format": "jpeg", "quality": 55}
            other = await client.ask("GET", "/screenshot", **lease, **chosen)
            assert other.headers["content-type"] == "image/jpeg"
            assert other.body == PICTURE + b"coordinates 55"

    run(scenario())


@over_both
def test_small_questions(topology: Topology) -> None:
    async def scenario() -> None:
        async with reached(topology, FakePool(3)) as client:
            lease = await client.lease(lifetime_mins=10)
            probed = await client.probe(lease)
            assert probed.json["instance_id"] == lease["instance_id"]
            assert 590 < probed.json["expires_in_seconds"] <= 600
            size = {"width": 1280, "height": 768}
            assert (await client.ask("GET", "/metadata", **lease)).json == size
            assert (await client.ask("GET", "/metadata")).json == size
            assert (await client.ask("GET", "/probe")).json == {"status": "success"}
            assert (await client.ask("GET", "/healthz")).json == {"status": "ok"}
            (node,) = await eventually(lambda nodes: bool(nodes[0]["instances"]), client.nodes)
            assert node.keys() == {
                *("url", "hash", "healthy", "capacity", "available", "instances")
            }
            assert node["hash"] == lease["node"]
            assert node["instances"] == [lease["instance_id"]]
            assert (node["healthy"], node["capacity"], node["available"]) == (True, 3, 2)

    run(scenario())


@over_both
def test_one_node_need_not_be_named(topology: Topology) -> None:
    async def scenario() -> None:
        async with reached(topology, FakePool()) as client:
            name = (await client.lease())["instance_id"]
            assert (await client.ask("GET", "/probe", instance_id=name)).status == 200

    run(scenario())


@over_both
def test_errors_of_sessions_keep_their_types(topology: Topology) -> None:
    async def scenario() -> None:
        async with reached(topology, FakePool()) as client:
            lease = await client.lease()
            crashed = await client.visit(lease, "crash:")
            assert (crashed.status, crashed.kind) == (502, "page_crashed")
            slow = await client.visit(lease, "hang:", deadline_seconds=0.1)
            assert (slow.status, slow.kind) == (504, "deadline")
            assert slow.json["error"]["retryable"] is True
            broken = await client.visit(lease, "bug:")
            assert (broken.status, broken.kind) == (500, "internal")
            assert "KeyError" in broken.message
            gone = await client.visit(lease, "gone:")
            assert (gone.status, gone.kind) == (410, "session_lost")
            unknown = await client.probe({**lease, "instance_id": "zzz"})
            assert (unknown.status, unknown.kind) == (410, "session_lost")
            assert "unknown session on this node" in unknown.message

    run(scenario())


@over_both
def test_the_sessions_of_an_unknown_node_are_lost(topology: Topology) -> None:
    async def scenario() -> None:
        async with reached(topology, FakePool(), startup_seconds=0) as client:
            told = await client.probe({"instance_id": "i", "node": "000000000000"})
            assert (told.status, told.kind) == (410, "session_lost")
            assert "unknown node '000000000000'" in told.message

    run(scenario())


@over_both
def test_a_deadline_in_the_headers_counts(topology: Topology) -> None:
    async def scenario() -> None:
        async with reached(topology, FakePool()) as client, aiohttp.ClientSession() as http:
            lease = await client.lease()
            hurried = type(client)(http, client.url, x_rollgym_timeout="0.1")
            began = time.monotonic()
            told = await hurried.visit(lease, "hang:", deadline_seconds=100)
            assert (told.status, told.kind) == (504, "deadline")
            assert time.monotonic() - began < 30

    run(scenario())


@over_both
def test_leases_expire_and_say_so(topology: Topology, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        monkeypatch.setattr("webgym.browser.node.CHECK_INTERVAL", 0.05)
        pool = FakePool(3)
        async with reached(topology, pool, idle_seconds=0.5) as client:
            short = await client.lease(lifetime_mins=0.005)
            idle, unused = await client.lease(), await client.lease()
            await client.probe(idle)
            await until(lambda: not pool.open)
            assert "it expired after 0.005 min" in (await client.probe(short)).message
            assert "it was unused for 0.5 s" in (await client.probe(idle)).message
            told = (await client.probe(unused)).message
            assert "it was not used within 0.5 s of its start" in told

    run(scenario())


@over_both
def test_the_end_of_a_browser_is_reported_at_once(topology: Topology) -> None:
    async def scenario() -> None:
        pool = FakePool(1)
        async with reached(topology, pool) as client:
            lease = await client.lease()
            calling = asyncio.ensure_future(client.visit(lease, "stuck:"))
            await until(lambda: bool(pool.sessions) and pool.sessions[0].busy.is_set())
            pool.kill()
            told = await calling
            assert (told.status, told.kind) == (410, "session_lost")
            assert "its browser died" in told.message
            await client.lease()

    run(scenario())
