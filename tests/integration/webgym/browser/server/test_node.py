"""A node without HTTP: every session is closed exactly once, whatever happens to it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

import pytest

from tests.cases import for_each
from tests.integration.webgym.browser.server.fake_pool import FakePool
from tests.integration.webgym.browser.server.harness import run, until
from webgym.browser import node as node_module
from webgym.browser.contract.commands import VisitPage
from webgym.browser.contract.errors import (
    BadRequestError,
    NoSessionError,
    SessionLostError,
    StepDeadlineError,
)
from webgym.browser.node import BrowserNode
from webgym.browser.pool.pool import BrowserPool

HOUR = 3600.0
NAME = "an-identifier-that-nobody-guesses"


def soon(seconds: float = 10) -> float:
    return asyncio.get_running_loop().time() + seconds


def new_node(pool: FakePool, idle_seconds: float = HOUR) -> BrowserNode:
    return BrowserNode(cast("BrowserPool", pool), idle_seconds, first_use_seconds=60.0)


@asynccontextmanager
async def node_of(pool: FakePool, idle_seconds: float = HOUR) -> AsyncIterator[BrowserNode]:
    async with asyncio.timeout(20), new_node(pool, idle_seconds) as node:
        yield node
    pool.check()


async def visit(node: BrowserNode, name: str, url: str, seconds: float = 10) -> dict[str, object]:
    deadline = soon(seconds)
    return await node.call(
        name, deadline, lambda session: session.execute(VisitPage(url), deadline)
    )


def test_a_session_is_opened_used_and_released() -> None:
    async def scenario() -> None:
        pool = FakePool(2)
        async with node_of(pool) as node:
            name = await node.get(HOUR, soon())
            assert (node.available, node.instances) == (1, (name,))
            done = await visit(node, name, "http://x")
            assert done == {"status": "success"}
            assert await node.reset(name) is None
            assert (node.available, node.instances) == (2, ())
            assert await node.reset(name) == "it had ended before: it was released by /reset"

    run(scenario())


def test_an_unknown_session_cannot_be_released() -> None:
    async def scenario() -> None:
        async with node_of(FakePool()) as node:
            with pytest.raises(SessionLostError, match="unknown session"):
                await node.reset("zzz")
            with pytest.raises(SessionLostError, match="unknown session"):
                await visit(node, "zzz", "x")
            with pytest.raises(SessionLostError, match="unknown session"):
                node.seconds_left("zzz")

    run(scenario())


def test_a_full_node_refuses_at_once() -> None:
    async def scenario() -> None:
        pool = FakePool(2)
        pool.gate.clear()
        async with node_of(pool) as node:
            gets = [asyncio.ensure_future(node.get(HOUR, soon())) for _ in range(2)]
            await until(lambda: pool.opening == 2)
            with pytest.raises(NoSessionError, match="all 2 sessions of this node are in use"):
                await node.get(HOUR, soon())
            pool.gate.set()
            first, _ = await asyncio.gather(*gets)
            pool.closing_gate.clear()
            resetting = asyncio.ensure_future(node.reset(first))
            await until(lambda: first not in node.instances)
            assert node.available == 0, "a session that is being closed takes up room"
            pool.closing_gate.set()
            await resetting
            assert node.available == 1

    run(scenario())


def test_a_client_that_disconnects_while_a_session_is_opened_leaves_none() -> None:
    async def scenario() -> None:
        pool = FakePool(1)
        pool.gate.clear()
        async with node_of(pool) as node:
            getting = asyncio.ensure_future(node.get(HOUR, soon()))
            await until(lambda: pool.opening == 1)
            getting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await getting
            assert node.available == 0
            pool.gate.set()
            await until(lambda: node.available == 1)
            assert len(pool.sessions) == 1
            assert node.instances == ()

    run(scenario())


@for_each("turns", range(8))
def test_a_client_may_disconnect_at_any_moment(turns: int) -> None:
    async def scenario() -> None:
        pool = FakePool(1)
        async with node_of(pool) as node:
            getting = asyncio.ensure_future(node.get(HOUR, soon()))
            for _ in range(turns):
                await asyncio.sleep(0)
            if getting.cancel():
                await until(lambda: node.available == 1)
                assert node.instances == ()
            else:
                await node.reset(await getting)

    run(scenario())


def test_a_session_that_cannot_be_opened_is_refused_with_the_reason() -> None:
    async def scenario() -> None:
        pool = FakePool(1)
        async with node_of(pool) as node:
            for trouble in (
                NoSessionError("no memory"),
                KeyError("no memory"),
                OSError("no memory"),
            ):
                pool.trouble = trouble
                with pytest.raises(NoSessionError, match="no memory"):
                    await node.get(HOUR, soon())
                assert node.available == 1
            pool.trouble = None
            await node.get(HOUR, soon())

    run(scenario())


def test_a_pool_that_hangs_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    async def hang(*_: object) -> object:
        await asyncio.sleep(1000)
        raise AssertionError

    async def scenario() -> None:
        pool = FakePool(1)
        monkeypatch.setattr(pool, "open_session", hang)
        monkeypatch.setattr(node_module, "GRACE", 0.01)
        async with node_of(pool) as node:
            with pytest.raises(NoSessionError, match="no session could be opened within"):
                await node.get(HOUR, soon(0.01))
            assert node.available == 1

    run(scenario())


def test_a_session_that_is_lost_ends_its_calls_and_its_lease_at_once() -> None:
    async def scenario() -> None:
        pool = FakePool(2)
        async with node_of(pool) as node:
            name, other = await node.get(HOUR, soon()), await node.get(HOUR, soon())
            lost, kept = pool.sessions
            calling = asyncio.ensure_future(visit(node, name, "stuck:"))
            await lost.busy.wait()
            lost.lose("its browser died")
            with pytest.raises(SessionLostError, match="is lost: its browser died"):
                await calling
            with pytest.raises(SessionLostError, match="is lost: its browser died"):
                await visit(node, name, "x")
            assert node.instances == (other,)
            await visit(node, other, "x")
            assert kept.visited == ["x"]
            await until(lambda: node.available == 1)

    run(scenario())


def test_a_session_that_raises_its_loss_ends() -> None:
    async def scenario() -> None:
        pool = FakePool(1)
        async with node_of(pool) as node:
            name = await node.get(HOUR, soon())
            for url in ("gone:", "x"):
                with pytest.raises(SessionLostError, match="its browser died"):
                    await visit(node, name, url)
            await until(lambda: node.available == 1)

    run(scenario())


def test_a_session_that_does_not_answer_is_stopped_at_the_deadline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario() -> None:
        monkeypatch.setattr(node_module, "GRACE", 0.01)
        async with node_of(FakePool(1)) as node:
            name = await node.get(HOUR, soon())
            with pytest.raises(StepDeadlineError, match=r"did not answer within [0-9.]+ s"):
                await visit(node, name, "stuck:", 0.05)
            await visit(node, name, "x")

    run(scenario())


def test_leases_end_by_lifetime_and_idleness(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        monkeypatch.setattr(node_module, "CHECK_INTERVAL", 0.02)
        pool = FakePool(3)
        async with node_of(pool, idle_seconds=0.3) as node:
            short = await node.get(0.1, soon())
            idle, used = await node.get(HOUR, soon()), await node.get(HOUR, soon())
            node.seconds_left(idle)
            calling = asyncio.ensure_future(visit(node, used, "stuck:"))
            await until(lambda: node.available == 2)
            assert node.instances == (used,)
            with pytest.raises(SessionLostError, match="it expired after 0.00166667 min"):
                node.seconds_left(short)
            with pytest.raises(SessionLostError, match="it was unused for 0.3 s"):
                node.seconds_left(idle)
            calling.cancel()

    run(scenario())


def test_a_session_that_cannot_be_closed_still_frees_its_slot() -> None:
    async def scenario() -> None:
        pool = FakePool(1)
        pool.closing_trouble = OSError("it will not die")
        async with node_of(pool) as node:
            await node.reset(await node.get(HOUR, soon()))
            assert node.available == 1

    run(scenario())


def test_a_master_can_release_a_session_before_it_is_open() -> None:
    async def scenario() -> None:
        pool = FakePool(2)
        pool.gate.clear()
        async with node_of(pool) as node:
            getting = asyncio.ensure_future(node.get(HOUR, soon(), NAME))
            await until(lambda: pool.opening == 1)
            with pytest.raises(BadRequestError, match="is being opened"):
                await node.get(HOUR, soon(), NAME)
            assert await node.reset(NAME) == "it was not open yet, and will not be opened"
            pool.gate.set()
            with pytest.raises(SessionLostError, match="released"):
                await getting
            await until(lambda: node.available == 2)
            with pytest.raises(SessionLostError, match="released"):
                await node.get(HOUR, soon(), NAME)
            await until(lambda: node.available == 2)

    run(scenario())


def test_a_draining_node_ends_all_sessions_and_rejects_requests() -> None:
    async def scenario() -> None:
        pool = FakePool(3)
        async with node_of(pool) as node:
            name = await node.get(HOUR, soon())
            calling = asyncio.ensure_future(visit(node, name, "stuck:"))
            pool.gate.clear()
            opening = asyncio.ensure_future(node.get(HOUR, soon()))
            await until(lambda: pool.opening == 1)
            draining = asyncio.ensure_future(node.drain(5))
            with pytest.raises(SessionLostError, match="its node was stopped"):
                await calling
            with pytest.raises(NoSessionError, match="stopping"):
                await node.get(HOUR, soon())
            pool.gate.set()
            with pytest.raises(NoSessionError, match="stopping"):
                await opening
            await draining

    run(scenario())


def test_draining_is_bounded() -> None:
    async def scenario() -> None:
        pool = FakePool(1)
        pool.closing_gate.clear()
        node = new_node(pool)
        await node.get(HOUR, soon())
        async with asyncio.timeout(60):
            await node.drain(0.05)

    run(scenario())


def test_every_change_of_the_free_slots_is_reported() -> None:
    async def scenario() -> None:
        pool, seen = FakePool(1), list[int]()
        async with node_of(pool) as node:
            node.changed = lambda: seen.append(node.available)
            await node.reset(await node.get(HOUR, soon()))
            assert seen[0] == 0
            assert seen[-1] == 1

    run(scenario())
