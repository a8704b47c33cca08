"""One real browser: how it starts, what it knows, and that nothing of it is left."""

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.integration.webgym.browser.chromium.harness import (
    Run,
    a_program,
    launched,
    open_page,
    soon,
)
from tests.integration.webgym.browser.processes import (
    alive,
    environment_of,
    everything_in,
    files_of,
    of_kind,
    open_files,
    until,
)
from webgym.browser.chromium.connection import ConnectionClosedError
from webgym.browser.chromium.executable import Browser
from webgym.browser.chromium.process import Chromium, LaunchError
from webgym.browser.chromium.process_tree import read_groups
from webgym.browser.chromium.profile import private_folder


def test_a_browser_starts_answers_and_leaves_nothing(
    run: Run, browser: Browser, folder: Path
) -> None:
    async def scenario() -> None:
        async with launched(browser):
            pass  # what the event loop opens for its first threads and children stays open
        before = open_files()
        async with launched(browser) as chromium:
            await chromium.ping(soon())
            await open_page(chromium)
            processes = everything_in(chromium.group)
            assert chromium.pid in of_kind(chromium.group, "browser")
            assert of_kind(chromium.group, "renderer")
            assert not chromium.has_ended()
            assert len(list(private_folder().iterdir())) == 1
        assert alive(processes) == []
        assert chromium.has_ended()
        assert list(private_folder().iterdir()) == []
        await until(lambda: open_files() == before, "its pipes are closed")
        await chromium.close()

    run(scenario)


def test_a_browser_can_be_used_as_soon_as_it_is_launched_and_not_once_it_is_closed(
    run: Run, browser: Browser, folder: Path
) -> None:
    async def scenario() -> None:
        async with launched(browser) as chromium:
            assert read_groups([chromium.group])[chromium.group]
        with pytest.raises(ConnectionClosedError):
            await chromium.ping(soon())
        assert read_groups([chromium.group])[chromium.group] == []

    run(scenario)


def test_a_browser_gets_no_tokens_and_a_separate_home_folder(
    run: Run, browser: Browser, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CPU_CLUSTER_TOKEN", "very-secret")
    monkeypatch.setenv("OPENAI_API_KEY", "very-secret")

    async def scenario() -> None:
        async with launched(browser) as chromium:
            for pid in everything_in(chromium.group):
                assert b"very-secret" not in environment_of(pid)
            assert f"HOME={private_folder()}".encode() in environment_of(chromium.pid)

    run(scenario)


def test_a_browser_holds_no_file_of_ours_but_its_pipes(
    run: Run, browser: Browser, folder: Path
) -> None:
    async def scenario() -> None:
        reading, writing = os.pipe()
        os.set_inheritable(writing, True)  # as one that a shell left open for its children
        ours = {file for file in files_of(os.getpid()) if file.startswith(("pipe:", "socket:"))}
        async with launched(browser) as first, launched(browser) as second:
            for pid in everything_in(second.group):
                assert ours & set(files_of(pid)) == set()
            processes = everything_in(first.group)
            first.connection.close()
            await until(lambda: not alive(processes), "the first leaves when its pipe ends")
            await second.ping(soon())
        os.close(reading)
        os.close(writing)

    run(scenario)


def test_no_thread_of_a_browser_comes_before_those_of_others(
    run: Run, browser: Browser, folder: Path
) -> None:
    def niceness(process: int) -> Iterator[int]:
        for thread in Path(f"/proc/{process}/task").iterdir():
            with suppress(ProcessLookupError):  # it has ended meanwhile
                yield os.getpriority(os.PRIO_PROCESS, int(thread.name))

    async def scenario() -> None:
        own = os.getpriority(os.PRIO_PROCESS, 0)
        async with launched(browser) as chromium:
            await open_page(chromium)
            of_all = [each for one in everything_in(chromium.group) for each in niceness(one)]
            assert min(of_all) >= own

    run(scenario)


def test_the_end_of_a_killed_browser_is_noticed_at_once_and_told(
    run: Run, browser: Browser, folder: Path
) -> None:
    async def scenario() -> None:
        async with launched(browser) as chromium:
            processes = everything_in(chromium.group)
            calling = asyncio.ensure_future(chromium.connection.closed)
            os.kill(chromium.pid, signal.SIGKILL)
            async with asyncio.timeout(60):
                await calling
            assert "SIGKILL" in await chromium.how_it_ended()
            assert chromium.has_ended()
            await until(lambda: not alive(processes), "its helpers leave too")

    run(scenario)


def test_a_stopped_browser_does_not_answer_and_can_be_closed_all_the_same(
    run: Run, browser: Browser, folder: Path
) -> None:
    async def scenario() -> None:
        async with launched(browser) as chromium:
            processes = everything_in(chromium.group)
            os.kill(chromium.pid, signal.SIGSTOP)
            with pytest.raises(TimeoutError):
                await chromium.ping(soon(0.2))
            began = time.monotonic()
        assert time.monotonic() - began < 30
        assert alive(processes) == []

    run(scenario)


def test_a_program_that_is_missing_cannot_be_launched(run: Run, folder: Path) -> None:
    async def scenario() -> None:
        with pytest.raises(LaunchError, match="nowhere cannot be started: .*No such file"):
            await Chromium.launch(Browser(folder / "nowhere"), soon())
        assert list(private_folder().iterdir()) == []

    run(scenario)


def test_a_program_that_ends_is_reported_with_what_it_said(run: Run, folder: Path) -> None:
    program = a_program(folder, "echo missing library >&2; exit 3")

    async def scenario() -> None:
        with pytest.raises(LaunchError, match="(?s)exit status 3.*missing library"):
            await Chromium.launch(Browser(program), soon())
        assert list(private_folder().iterdir()) == []

    run(scenario)


def test_of_what_a_program_says_only_the_end_is_kept(run: Run, folder: Path) -> None:
    program = a_program(folder, "yes blah | head -c 1000000 >&2; echo last words >&2; exit 3")

    async def scenario() -> None:
        with pytest.raises(LaunchError, match="last words") as raised:
            await Chromium.launch(Browser(program), soon())
        assert len(str(raised.value)) < 5_000

    run(scenario)


def test_a_program_that_never_answers_is_killed_at_the_deadline(run: Run, folder: Path) -> None:
    program = a_program(folder, f"echo $$ > {folder}/pid; sleep 600")

    async def scenario() -> None:
        with pytest.raises(LaunchError, match="did not answer within 0.[34] s"):
            await Chromium.launch(Browser(program), soon(0.4))
        if (folder / "pid").exists():  # on a busy machine it may not even have come to this
            assert everything_in(int((folder / "pid").read_text())) == []
        assert list(private_folder().iterdir()) == []

    run(scenario)


def test_a_launch_that_is_cancelled_leaves_nothing(run: Run, folder: Path) -> None:
    program = a_program(folder, f"echo $$ > {folder}/pid; sleep 600")

    async def scenario() -> None:
        launching = asyncio.ensure_future(Chromium.launch(Browser(program), soon()))
        written = folder / "pid"
        await until(lambda: written.exists() and bool(written.read_text()), "it runs")
        launching.cancel()
        with pytest.raises(asyncio.CancelledError):
            await launching
        assert everything_in(int(written.read_text())) == []
        assert list(private_folder().iterdir()) == []

    run(scenario)
