"""The process that owns a browser is killed: nothing may survive it for long."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.integration.webgym.browser.processes import (
    everything_in,
    of_kind,
    wait_until_dead,
)
from webgym.browser.chromium.profile import private_folder, remove_leftovers

_OWNER = (sys.executable, "-m", "tests.integration.webgym.browser.chromium.owner")


@contextmanager
def owner(folder: Path) -> Iterator[tuple["subprocess.Popen[bytes]", int]]:
    """The process, and the process group of its browser."""
    environment = os.environ | {"TMPDIR": str(folder)}
    with subprocess.Popen(_OWNER, stdout=subprocess.PIPE, env=environment) as process:
        try:
            assert process.stdout is not None
            yield process, int(process.stdout.readline())
        finally:
            process.kill()


def test_a_browser_does_not_outlive_its_killed_owner(folder: Path) -> None:
    with owner(folder) as (process, group):
        processes = everything_in(group)
        assert len(of_kind(group, "renderer")) == 2
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        assert wait_until_dead(processes) < 30
    assert len(list(private_folder().iterdir())) == 1
    assert remove_leftovers() == 1
    assert list(private_folder().iterdir()) == []


def test_a_browser_that_hung_when_its_owner_was_killed_is_ended_at_the_next_start(
    folder: Path,
) -> None:
    with owner(folder) as (process, group):
        processes = everything_in(group)
        for pid in of_kind(group, "browser"):
            os.kill(pid, signal.SIGSTOP)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        assert of_kind(group, "browser")
        assert remove_leftovers() == 1
        wait_until_dead(processes)
    assert list(private_folder().iterdir()) == []


def test_an_owner_that_adopts_orphans_reaps_those_of_its_browser(folder: Path) -> None:
    environment = os.environ | {"TMPDIR": str(folder)}
    told = subprocess.run(
        (*_OWNER, "reaper"), capture_output=True, env=environment, timeout=60, check=True
    )
    assert told.stdout == b"0\n", told.stderr
