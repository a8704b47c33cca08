"""Sessions on few browsers: where they go, how many there can be, and that nothing is left."""

import asyncio
import gc
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import cast

import pytest

from tests.integration.webgym.browser.chromium.harness import a_program
from tests.integration.webgym.browser.pool.harness import (
    StandInChannel,
    StandInSession,
    pooled,
    run,
    soon,
)
from tests.integration.webgym.browser.processes import (
    alive,
    everything_in,
    of_kind,
    open_files,
    until,
)
from webgym.browser.chromium.connection import CallError, ConnectionClosedError
from webgym.browser.chromium.executable import Browser, find_browser
from webgym.browser.chromium.process import LaunchError
from webgym.browser.chromium.profile import private_folder
from webgym.browser.chromium.targets import Targets
from webgym.browser.contract.errors import NoSessionError
from webgym.browser.session import ChromiumSession


def test_the_first_browser_runs_when_the_pool_has_started_and_none_when_it_has_ended(
    folder: Path,
) -> None:
    async def scenario() -> None:
        async with pooled() as pools:
            (pid,) = pools.pids()
            processes = everything_in(os.getpgid(pid))
            (session,) = await pools.open()
            assert await session.evaluate("1 + 1") == 2
            assert pools.pool.capacity == 16
            assert pools.sessions_by_browser() == [1]
        assert alive(processes) == []
        assert session.lost.done()
        assert list(private_folder().iterdir()) == []
        with pytest.raises(NoSessionError, match="closed"):
            await pools.open_one(soon())

    run(scenario)


def test_as_many_sessions_as_the_capacity_open_at_once_on_as_many_browsers_as_needed(
    folder: Path,
) -> None:
    async def scenario() -> None:
        async with pooled(capacity=12, sessions_per_browser=4) as pools:
            sessions = await pools.open(12)
            assert pools.sessions_by_browser() == [4, 4, 4]
            with pytest.raises(NoSessionError, match="all 12 sessions are in use"):
                await pools.open_one(soon(0.05))
            await asyncio.gather(
                *(session.evaluate(f"window.name = {n}") for n, session in enumerate(sessions))
            )
            names = [await session.evaluate("window.name") for session in sessions]
            assert names == [str(n) for n in range(12)]
            await pools.close(*sessions[:6])
            assert sum(pools.sessions_by_browser()) == 6
            await pools.open(6)

    run(scenario)


def test_a_waiting_request_gets_the_slot_of_a_session_that_closes(folder: Path) -> None:
    async def scenario() -> None:
        async with pooled(capacity=1, sessions_per_browser=1) as pools:
            (first,) = await pools.open()
            waiting = asyncio.ensure_future(pools.open_one(soon()))
            await until(lambda: pools.waiting == 1, "it waits")
            await pools.close(first)
            second = await waiting
            assert await second.evaluate("2") == 2

    run(scenario)


def test_a_spare_browser_is_started_before_the_last_slot_is_used(folder: Path) -> None:
    async def scenario() -> None:
        async with pooled(capacity=6, sessions_per_browser=3) as pools:
            await pools.open(2)
            assert len(pools.pids()) == 1
            await pools.open(1)
            await until(lambda: len(pools.pids()) == 2, "the spare is up")
            assert pools.sessions_by_browser() == [3, 0]

    run(scenario)


def test_closing_twice_or_a_session_that_was_lost_is_fine(folder: Path) -> None:
    async def scenario() -> None:
        async with pooled() as pools:
            (session,) = await pools.open()
            await pools.close(session, session)
            await pools.close(session)
            assert pools.sessions_by_browser() == [0]

    run(scenario)


def test_closing_continues_when_the_caller_is_cancelled(folder: Path) -> None:
    async def scenario() -> None:
        async with pooled() as pools:
            (session,) = await pools.open()
            closing = asyncio.ensure_future(
                pools.pool.close_session(cast("ChromiumSession", session))
            )
            await asyncio.sleep(0)
            closing.cancel()
            await until(lambda: pools.sessions_by_browser() == [0], "it is closed")
            assert pools.guard.open_channels == set()

    run(scenario)


def test_an_opening_that_is_cancelled_at_any_moment_leaves_nothing(folder: Path) -> None:
    async def scenario() -> None:
        async with pooled(capacity=4) as pools:
            group = os.getpgid(pools.pids()[0])
            (kept,) = await pools.open()
            for moment in range(30):
                opening = asyncio.ensure_future(pools.open_one(soon()))
                for _ in range(moment):
                    await asyncio.sleep(0.001)
                opening.cancel()
                with suppress(asyncio.CancelledError):
                    await pools.close(await opening)
            await until(lambda: pools.sessions_by_browser() == [1], "they are closed")
            await until(lambda: len(of_kind(group, "renderer")) <= 2, "their pages are gone")
            assert len(pools.guard.open_channels) == 1
            assert await kept.evaluate("3") == 3
            await pools.open(3)

    run(scenario)


@pytest.mark.parametrize("error", [CallError("Target.createTarget", "no"), OSError("no sockets")])
def test_a_session_that_cannot_be_opened_is_an_error_with_the_cause(
    folder: Path, error: Exception
) -> None:
    async def fail(targets: Targets, channel: StandInChannel, deadline: float) -> StandInSession:
        await channel.close()
        raise error

    async def scenario() -> None:
        async with pooled() as pools:
            pools.opener = fail
            with pytest.raises(NoSessionError, match="could not open a session: .*no"):
                await pools.open_one(soon())
            assert pools.sessions_by_browser() == [0]
            assert pools.guard.open_channels == set()

    run(scenario)


async def dawdle(targets: Targets, channel: StandInChannel, deadline: float) -> StandInSession:
    try:
        await asyncio.sleep(60)
        raise AssertionError
    finally:
        await channel.close()


def test_an_opening_in_progress_ends_with_the_pool(folder: Path) -> None:
    async def scenario() -> None:
        async with pooled() as pools:
            pools.opener = dawdle
            opening = asyncio.ensure_future(pools.open_one(soon()))
            await until(lambda: pools.sessions_by_browser() == [1], "it is being opened")
        with pytest.raises(NoSessionError, match="closed"):
            await opening

    run(scenario)


def test_an_opening_ends_at_its_deadline_and_a_browser_that_fails_several_is_recycled(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with pooled() as pools:
            pools.opener = dawdle
            with pytest.raises(NoSessionError, match="TimeoutError"):
                await pools.open_one(soon(0.1))
            assert pools.sessions_by_browser() == [0]
            monkeypatch.setattr("webgym.browser.pool.pool.FAIR_OPEN_SECONDS", 0.01)
            for _ in range(3):
                assert pools.browsers[0].state == "serving"
                with pytest.raises(NoSessionError):
                    await pools.open_one(soon(0.1))
            await until(lambda: len(pools.logged("recycled (failing)")) == 1, "it is recycled")

    run(scenario)


def test_a_dead_browser_gets_no_more_sessions(folder: Path) -> None:
    """Also in the moment before it is replaced, although it has the fewest sessions."""

    attempts = 0

    async def die_once(
        targets: Targets, channel: StandInChannel, deadline: float
    ) -> StandInSession:
        nonlocal attempts
        attempts += 1
        if attempts == 1:
            targets.connection.close()
        return await StandInSession.open(targets, channel, deadline)

    async def scenario() -> None:
        async with pooled() as pools:
            pools.opener = die_once
            (session,) = await pools.open()
            assert await session.evaluate("4") == 4
            assert attempts == 2

    run(scenario)


def test_a_session_whose_browser_dies_while_it_opens_is_opened_on_another(folder: Path) -> None:
    attempts = 0

    async def die_once(
        targets: Targets, channel: StandInChannel, deadline: float
    ) -> StandInSession:
        nonlocal attempts
        attempts += 1
        if attempts == 1:
            await channel.close()
            raise ConnectionClosedError("gone")
        return await StandInSession.open(targets, channel, deadline)

    async def scenario() -> None:
        async with pooled() as pools:
            pools.opener = die_once
            (session,) = await pools.open()
            assert await session.evaluate("4") == 4
            assert pools.sessions_by_browser() == [1]

    run(scenario)


def test_a_pool_does_not_start_without_a_browser_that_does(folder: Path) -> None:
    program = a_program(folder, "echo no display >&2; exit 1")

    async def scenario() -> None:
        with pytest.raises(LaunchError, match="(?s)exit status 1.*no display"):
            async with pooled(Browser(program)):
                pytest.fail("it started")
        assert list(private_folder().iterdir()) == []

    run(scenario)


def test_a_browser_that_can_no_longer_be_started_is_tried_ever_more_rarely(folder: Path) -> None:
    """Requests for a session get the reason."""
    refusal = f"test -e {folder}/broken && echo no library >&2 && exit 1"
    start = f'exec {find_browser().path} "$@"'
    program = a_program(folder, f"echo x >> {folder}/starts\n{refusal}\n{start}")

    async def scenario() -> None:
        async with pooled(Browser(program)) as pools:
            (session,) = await pools.open()
            (folder / "broken").touch()
            os.kill(pools.pids()[0], 9)
            await session.lost
            with pytest.raises(NoSessionError, match="(?s)no browser is up: .*no library"):
                await pools.open_one(soon(2))
            assert 2 <= len((folder / "starts").read_text().split()) <= 6
            assert pools.logged("no library")
            (folder / "broken").unlink()
            await pools.open()

    run(scenario)


def test_an_unexpected_error_breaks_the_pool_and_is_logged(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with pooled() as pools:
            (session,) = await pools.open()
            (pid,) = pools.pids()
            monkeypatch.setattr(
                "webgym.browser.pool.supervisor.retirement",
                lambda *_: (_ for _ in ()).throw(KeyError(7)),
            )
            assert "pool broke" in await session.lost
            await until(lambda: not alive([pid]), "its browsers are ended")
            with pytest.raises(NoSessionError, match="pool broke"):
                await pools.open_one(soon())

    with pytest.raises(ExceptionGroup) as raised:
        run(scenario)
    assert raised.group_contains(KeyError)
    assert "the browser pool broke" in caplog.text


@pytest.mark.campaign
def test_after_a_hundred_sessions_there_are_no_more_processes_files_or_folders_than_before(
    folder: Path,
) -> None:
    async def scenario() -> None:
        async with pooled(capacity=8, sessions_per_browser=4, browser_sessions=40) as pools:
            await pools.close(*await pools.open(8))
            gc.collect()
            before = open_files()
            groups: set[int] = set()
            for _ in range(13):
                sessions = await pools.open(8)
                groups |= {os.getpgid(pid) for pid in pools.pids()}
                await pools.close(*sessions)
            await until(lambda: len(pools.logged("recycled (sessions)")) >= 2, "both were recycled")
            await until(lambda: len(pools.pids()) <= 2, "those that were recycled are gone")
            running = {os.getpgid(pid) for pid in pools.pids()}
            await until(
                lambda: not any(everything_in(group) for group in groups - running), "all of them"
            )
            await until(
                lambda: all(len(of_kind(group, "renderer")) <= 1 for group in running), "pages"
            )
            await until(
                lambda: len(list(private_folder().iterdir())) == len(pools.pids()), "folders"
            )
            await until(lambda: open_files() <= before, "open files")
            assert pools.sessions_by_browser() == [0] * len(running)

    run(scenario)


def test_a_pool_closes_within_bounds_when_its_browsers_hang(folder: Path) -> None:
    async def scenario() -> None:
        async with pooled(capacity=4, sessions_per_browser=2) as pools:
            await pools.open(4)
            groups = [os.getpgid(pid) for pid in pools.pids()]
            for pid in pools.pids():
                os.kill(pid, 19)
            began = time.monotonic()
        assert time.monotonic() - began < 30
        assert [pid for group in groups for pid in everything_in(group)] == []

    run(scenario)
