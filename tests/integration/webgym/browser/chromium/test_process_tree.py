"""What is known of a browser's processes, with and without /proc."""

from pathlib import Path

import pytest

from tests.cases import for_each
from tests.integration.webgym.browser.chromium.harness import Run, launched, open_page
from tests.integration.webgym.browser.processes import of_kind, until, zygotes
from webgym.browser.chromium import process_tree
from webgym.browser.chromium.executable import Browser
from webgym.browser.chromium.process_tree import (
    kind_of,
    processes_naming,
    read_groups,
)


@for_each("has_proc", [True, False])
def test_the_processes_of_a_browser_are_listed_with_their_kind_and_memory(
    run: Run, browser: Browser, folder: Path, monkeypatch: pytest.MonkeyPatch, has_proc: bool
) -> None:
    monkeypatch.setattr(process_tree, "_HAS_PROC", has_proc)

    async def scenario() -> None:
        async with launched(browser) as chromium:
            await open_page(chromium)
            await until(lambda: bool(of_kind(chromium.group, "renderer")), "a page is listed")
            await until(lambda: bool(of_kind(chromium.group, "network")), "the network is listed")
            assert chromium.pid in of_kind(chromium.group, "browser")
            processes = read_groups([chromium.group])[chromium.group]
            assert all(process.memory > 0 for process in processes)
            assert chromium.pid in processes_naming(f"--user-data-dir={folder}")

    run(scenario)


def test_a_browser_without_a_zygote_is_not_whole(run: Run, browser: Browser, folder: Path) -> None:
    async def scenario() -> None:
        async with launched(browser) as chromium:
            group, pid = chromium.group, chromium.pid
            await until(lambda: len(zygotes(group, pid)) == 2, "both have been started")
            processes = read_groups([group])[group]
            assert chromium.is_whole(processes)
            for zygote in zygotes(group, pid):
                rest = [process for process in processes if process.pid != zygote]
                assert not chromium.is_whole(rest)

    run(scenario)


@for_each(
    ("command", "kind"),
    [
        (b"/usr/lib/chromium/chromium\0--headless\0", "browser"),
        (b"/usr/lib/chromium/chromium\0--type=zygote\0", "zygote"),
        (b"/usr/lib/chromium/chromium --type=renderer --lang=en", "renderer"),
        (b"/x\0--type=utility\0--utility-sub-type=network.mojom.NetworkService\0", "network"),
        (b"/x\0--type=utility\0", "utility"),
        (b"/bin/sh\0/usr/bin/chromium\0--headless\0", "launcher"),
    ],
)
def test_the_kind_of_a_process_is_read_from_its_command_line(command: bytes, kind: str) -> None:
    assert kind_of(command) == kind
