"""More clients than sessions: who waits, who is sent away, and who has left."""

import asyncio
import json
import socket
import time

import aiohttp
import pytest

from rollgym.servers.exchange import Answer
from tests.integration.webgym.browser.server.fake_pool import FakePool
from tests.integration.webgym.browser.server.harness import (
    PATIENCE,
    Client,
    Topology,
    in_line,
    over_both,
    reached,
    run,
    server,
    until,
)
from webgym.browser.contract.http import BrowserRequest
from webgym.browser.routes import ServerRoutes

GET = b"POST /get HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n"


@over_both
def test_overload_answers_with_when_to_come_back(topology: Topology) -> None:
    async def scenario() -> None:
        async with reached(topology, FakePool(1), queue_size=1) as client:
            lease = await client.lease()
            at_once = await client.get(wait_seconds=0)
            assert (at_once.status, at_once.kind) == (503, "no_session")
            assert "all 1 sessions are in use" in at_once.message
            assert int(at_once.headers["retry-after"]) >= 1
            waiting = asyncio.ensure_future(client.get(wait_seconds=60))
            await in_line(client, 1)
            full = await client.get(wait_seconds=60)
            assert (full.status, full.kind) == (503, "no_session")
            assert "1 requests wait already" in full.message
            await client.reset(lease)
            assert (await waiting).status == 200

    run(scenario())


@over_both
def test_a_client_that_hangs_up_cancels_what_it_asked_for(topology: Topology) -> None:
    async def scenario() -> None:
        pool = FakePool(1)
        async with reached(topology, pool) as client:
            lease = await client.lease()
            calling = asyncio.ensure_future(client.visit(lease, "stuck:"))
            await until(pool.sessions[0].busy.is_set)
            calling.cancel()
            await until(lambda: pool.sessions[0].cancelled == 1)
            assert (await client.visit(lease, "x")).status == 200

    run(scenario())


@over_both
def test_a_session_for_a_client_that_hung_up_goes_to_the_next(topology: Topology) -> None:
    async def scenario() -> None:
        pool = FakePool(1)
        pool.gate.clear()
        async with reached(topology, pool) as client:
            first = asyncio.ensure_future(client.get())
            await until(lambda: pool.opening == 1)
            second = asyncio.ensure_future(client.get())
            first.cancel()
            pool.gate.set()
            assert (await second).status == 200
            assert len(pool.open) == 1
        pool.check()

    run(scenario())


def test_a_stopping_server_sends_those_away_who_wait() -> None:
    async def scenario() -> None:
        pool = FakePool(1)
        async with aiohttp.ClientSession() as http:
            async with server(pool) as served:
                client = served.client(http)
                lease = await client.lease()
                waiting = asyncio.ensure_future(client.get())
                calling = asyncio.ensure_future(client.visit(lease, "stuck:"))
                await until(pool.sessions[0].busy.is_set)
                await in_line(client, 1)
                stopping = time.monotonic()
            assert time.monotonic() - stopping < PATIENCE / 2
            told = await calling
            assert (told.status, told.kind) == (410, "session_lost")
            assert "stopped" in told.message
            assert (await waiting).status == 503
        pool.check()

    run(scenario())


def test_clients_take_turns() -> None:
    async def scenario() -> None:
        async with server(FakePool(1)) as served, aiohttp.ClientSession() as http:
            greedy, modest = (served.client(http, x_client_id=name) for name in ("a", "b"))
            lease = await greedy.lease()
            many = [asyncio.ensure_future(greedy.get()) for _ in range(10)]
            await in_line(greedy, 10)
            one = asyncio.ensure_future(modest.get())
            await in_line(greedy, 11)
            served_greedy = 0
            while not one.done():
                await greedy.reset(lease)
                done, _ = await asyncio.wait(
                    {*many, one}, return_when=asyncio.FIRST_COMPLETED, timeout=PATIENCE
                )
                if one not in done:
                    served_greedy += 1
                    answered = done.pop()
                    many.remove(answered)
                    lease = {name: answered.result().json[name] for name in lease}
            assert served_greedy <= 1
            for task in many:
                task.cancel()

    run(scenario())


@over_both
def test_a_flood_is_refused_and_does_no_harm(topology: Topology) -> None:
    async def scenario() -> None:
        pool = FakePool(4)
        async with reached(topology, pool, queue_size=20) as client:
            leases = [await client.lease() for _ in range(4)]
            flood = await asyncio.gather(*(client.get(wait_seconds=0.5) for _ in range(300)))
            assert {told.status for told in flood} == {503}
            assert (await client.visit(leases[0], "x")).status == 200
            for lease in leases:
                await client.reset(lease)
            assert (await client.get()).status == 200
        pool.check()

    run(scenario())


def test_a_client_that_disconnects_before_the_answer_leaves_no_session(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario() -> None:
        pool = FakePool(1)
        async with server(pool) as served:
            client = socket.create_connection(("127.0.0.1", served.port))
            answered = ServerRoutes.answered

            async def leave_then_answer(front: ServerRoutes, request: BrowserRequest) -> Answer:
                answer = await answered(front, request)
                client.close()
                return answer

            monkeypatch.setattr(ServerRoutes, "answered", leave_then_answer)
            client.sendall(GET)
            await until(lambda: len(pool.sessions) == 1 and not pool.open)
            assert served.master.info().nodes[0].available == 1
        pool.check()

    run(scenario())


def test_a_client_that_disconnects_after_the_answer_keeps_its_session() -> None:
    async def scenario() -> None:
        async with server(FakePool(20)) as served, aiohttp.ClientSession() as http:
            others = served.client(http)
            for _ in range(20):
                reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
                writer.write(GET)
                said = await reader.readuntil(b'"status":"success"}')
                writer.transport.abort()
                granted = json.loads(said.partition(b"\r\n\r\n")[2])
                lease = {name: granted[name] for name in ("instance_id", "node")}
                assert (await others.probe(lease)).status == 200

    run(scenario())


@over_both
def test_who_left_no_time_to_open_a_session_does_not_keep_others_out(topology: Topology) -> None:
    async def scenario() -> None:
        pool = FakePool(4)
        async with reached(topology, pool) as client, aiohttp.ClientSession() as http:
            pool.gate.clear()
            for seconds in ("0", "0.001", "0.01", "0.1", "0.1", "0.1"):
                hasty = Client(http, client.url, x_rollgym_timeout=seconds)
                told = await hasty.get()
                assert (told.status, told.kind) == (503, "no_session")
                assert int(told.headers["retry-after"]) >= 1
            pool.gate.set()
            assert (await client.get(wait_seconds=0)).status == 200

    run(scenario())
