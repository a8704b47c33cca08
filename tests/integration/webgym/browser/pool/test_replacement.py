"""Browsers that die, hang, grow or age are replaced, and only their own sessions notice."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from tests.integration.webgym.browser.chromium.harness import a_program
from tests.integration.webgym.browser.pool.harness import pooled, run
from tests.integration.webgym.browser.processes import everything_in, of_kind, until, zygotes
from webgym.browser.chromium.executable import Browser, find_browser
from webgym.browser.chromium.process_tree import read_groups

QUICK = {"ping_interval": 0.2, "ping_timeout": 10.0, "memory_interval": 0.1}


@pytest.mark.parametrize(
    ("number", "reason", "ping_timeout"),
    [(signal.SIGKILL, "was killed", 60.0), (signal.SIGSTOP, "did not answer", 5.0)],
)
def test_a_browser_that_dies_or_hangs_is_replaced_and_other_sessions_do_not_notice(
    folder: Path, number: int, reason: str, ping_timeout: float
) -> None:
    async def scenario() -> None:
        settings = QUICK | {"ping_timeout": ping_timeout}
        async with pooled(capacity=4, sessions_per_browser=2, **settings) as pools:
            sessions = await pools.open(4)
            victim, survivor = pools.pids()
            group = os.getpgid(victim)
            os.kill(victim, number)
            await until(lambda: any(s.lost.done() for s in sessions), "the loss is told")
            lost = [session for session in sessions if session.lost.done()]
            kept = [session for session in sessions if not session.lost.done()]
            assert (len(lost), len(kept)) == (2, 2)
            assert all(f"browser {victim}" in session.lost.result() for session in lost)
            assert [await session.evaluate("5") for session in kept] == [5, 5]
            assert pools.logged(f"browser {victim} {reason}")[0].endswith("; 2 sessions lost")
            fresh = await pools.open(2)
            assert [await session.evaluate("6") for session in fresh] == [6, 6]
            assert survivor in pools.pids()
            assert victim not in pools.pids()
            await until(lambda: not everything_in(group), "nothing of it is left")
            await pools.close(*lost)

    run(scenario)


def test_a_browser_that_is_only_busy_is_not_ended(folder: Path) -> None:
    """It sends messages, though the answers to pings are late."""

    async def scenario() -> None:
        async with pooled(**QUICK | {"ping_timeout": 0.4}) as pools:
            (session,) = await pools.open()
            (browser,) = pools.browsers
            pings = 0

            async def late(deadline: float) -> None:
                nonlocal pings
                pings += 1
                assert await session.evaluate("7") == 7
                raise TimeoutError(deadline)

            browser.chromium.ping = late  # type: ignore[method-assign]
            await until(lambda: pings > 5, "it was asked often enough")
            assert not session.lost.done()
            assert pools.browsers == [browser]

    run(scenario)


def test_a_browser_that_no_longer_draws_pages_is_replaced(folder: Path) -> None:
    async def scenario() -> None:
        async with pooled(**QUICK) as pools:
            (session,) = await pools.open()
            (browser,) = pools.pids()
            session.targets.failed_observations = 2
            assert "no longer draws pages" in await session.lost
            (fresh,) = await pools.open()
            assert await fresh.evaluate("7") == 7
            assert browser not in pools.pids()

    run(scenario)


def test_calls_in_flight_on_a_killed_browser_end_at_once(folder: Path) -> None:
    async def scenario() -> None:
        async with pooled() as pools:
            (session,) = await pools.open()
            call = asyncio.ensure_future(session.evaluate("new Promise(() => {}), 0; while(1);"))
            await asyncio.sleep(0.05)
            os.kill(pools.pids()[0], signal.SIGKILL)
            assert "SIGKILL" in await session.lost
            with pytest.raises(Exception, match="has ended"):
                await call

    run(scenario)


@pytest.mark.campaign
@pytest.mark.parametrize("kind", ["gpu-process", "network"])
def test_a_browser_survives_the_loss_of_a_helper(folder: Path, kind: str) -> None:
    async def scenario() -> None:
        async with pooled(**QUICK) as pools:
            (session,) = await pools.open()
            (browser,) = pools.pids()
            for pid in of_kind(os.getpgid(browser), kind):
                os.kill(pid, signal.SIGKILL)
            (fresh,) = await pools.open()
            assert await fresh.evaluate("7") == 7
            assert await session.evaluate("7") == 7
            assert pools.pids() == [browser]

    run(scenario)


def test_a_browser_that_can_start_no_more_pages_is_replaced(folder: Path) -> None:
    async def scenario() -> None:
        async with pooled(**QUICK) as pools:
            (session,) = await pools.open()
            (browser,) = pools.pids()
            group = os.getpgid(browser)
            await until(lambda: pools.browsers[0].memory > 0, "its memory was read")
            for pid in zygotes(group, browser):
                os.kill(pid, signal.SIGKILL)
            await session.lost
            (fresh,) = await pools.open()
            assert await fresh.evaluate("7") == 7

    run(scenario)


def test_a_page_whose_process_is_killed_crashes_alone(folder: Path) -> None:
    async def scenario() -> None:
        async with pooled(**QUICK) as pools:
            group = os.getpgid(pools.pids()[0])
            first, second = await pools.open(2)
            await second.evaluate("window.all = new Uint8Array(100 << 20).fill(1), 0")
            largest = max(read_groups([group])[group], key=lambda process: process.memory)
            assert largest.kind == "renderer"
            os.kill(largest.pid, signal.SIGKILL)
            async with asyncio.timeout(60):
                await second.crashed.wait()
            assert await first.evaluate("9") == 9
            assert not second.lost.done()
            assert not first.crashed.is_set()

    run(scenario)


def test_a_page_that_takes_too_much_memory_is_ended_alone(folder: Path) -> None:
    async def scenario() -> None:
        async with pooled(page_megabytes=200, **QUICK) as pools:
            first, greedy = await pools.open(2)
            greedy.begin("window.all = []; while (true) all.push(new Uint8Array(1 << 20).fill(1))")
            async with asyncio.timeout(60):
                await greedy.crashed.wait()
            assert await first.evaluate("10") == 10
            (message,) = pools.logged("page process")
            assert "MiB" in message

    run(scenario)


@pytest.mark.parametrize(
    ("limit", "reason"),
    [
        pytest.param({"browser_minutes": 0.05}, "age", marks=pytest.mark.campaign),
        ({"browser_sessions": 2}, "sessions"),
        pytest.param({"browser_megabytes": 400}, "memory", marks=pytest.mark.campaign),
    ],
)
def test_a_browser_beyond_a_limit_takes_no_new_sessions_and_ends_with_its_last(
    folder: Path, limit: dict[str, float], reason: str
) -> None:
    async def scenario() -> None:
        async with pooled(**QUICK, **limit) as pools:
            (old,) = pools.pids()
            first, second = await pools.open(2)
            await second.evaluate("window.all = new Uint8Array(400 << 20).fill(1), 0")
            await until(lambda: pools.browsers[0].state == "draining", "it drains")
            assert pools.pids()[0] == old
            (third,) = await pools.open()
            assert third.targets is not first.targets
            assert await first.evaluate("11") == 11
            await pools.close(first)
            assert await second.evaluate("12") == 12
            await pools.close(second)
            await until(lambda: old not in pools.pids(), "it ended")
            assert pools.logged(f"recycled ({reason})")
            assert not third.lost.done()

    run(scenario)


def test_sessions_of_a_recycled_browser_have_a_bound(folder: Path) -> None:
    async def scenario() -> None:
        async with pooled(browser_minutes=1 / 60, drain_seconds=0.5, **QUICK) as pools:
            (session,) = await pools.open()
            async with asyncio.timeout(60):
                assert "recycled (age)" in await session.lost

    run(scenario)


def test_a_browser_whose_session_does_not_close_is_recycled(folder: Path) -> None:
    async def scenario() -> None:
        async with pooled(close_timeout=0.1, **QUICK) as pools:
            (session,) = await pools.open()
            (old,) = pools.pids()
            session.may_close.clear()
            await pools.close(session)
            await until(lambda: bool(pools.logged("recycled (failing)")), "it is recycled")
            assert old not in pools.pids()
            session.may_close.set()
            await session.close()

    run(scenario)


@pytest.mark.campaign
@pytest.mark.parametrize("victim", ["launcher", "browser"])
def test_a_browser_behind_a_shell_that_stays_is_watched_like_any_other(
    folder: Path, victim: str
) -> None:
    program = a_program(folder, f'{find_browser().path} "$@"')

    async def scenario() -> None:
        async with pooled(Browser(program), **QUICK) as pools:
            (session,) = await pools.open()
            (pid,) = pools.pids()
            group = os.getpgid(pid)
            assert pid in of_kind(group, "browser")
            assert group in of_kind(group, "launcher")
            os.kill(pid if victim == "browser" else group, signal.SIGKILL)
            assert "SIGKILL" in await session.lost
            await until(lambda: not everything_in(group), "nothing of it is left")
            await pools.open()

    run(scenario)


@pytest.mark.campaign
def test_a_storm_of_deaths_is_survived(folder: Path) -> None:
    async def scenario() -> None:
        async with pooled(capacity=6, sessions_per_browser=2, **QUICK) as pools:
            for _ in range(3):
                sessions = await pools.open(6)
                for pid in pools.pids():
                    os.kill(pid, signal.SIGKILL)
                await asyncio.gather(*(session.lost for session in sessions))
                (session,) = await pools.open()
                assert sum(pools.sessions_by_browser()) == 1
                await pools.close(session)

    run(scenario)
