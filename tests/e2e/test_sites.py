"""Every task on the test sites is solved by its recorded solution, in our own browser server.

The solutions are played several at a time, against the real commands: `webgym.sites` and
`webgym.browser serve`. By default one task of each site is played, in alternating
interaction modes; the campaign plays all tasks in both modes.
"""

import asyncio
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.e2e.browsing import server
from tests.e2e.command import PATIENCE, finish
from tests.e2e.solving import AT_ONCE, MODES, Played, play_all, sites, step_limit
from webgym.browser.chromium.executable import NoBrowserError, find_browser
from webgym.browser.contract.commands import InteractionMode
from webgym.sites.tasks.task import SPLITS, load_tasks

TASKS = {task.task_id: (task, split) for split in SPLITS for task in load_tasks(split)}
WALL = "sites-captcha-01"
EXPECTED_INCIDENTS = {"dialog", "new_tab"}

pytestmark = pytest.mark.timeout(400)


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[str, str]]:
    """The URLs of the sites and of a browser server."""
    try:
        find_browser()
    except NoBrowserError as error:
        pytest.skip(str(error))
    with sites("--port", "0") as (_, url), server("--capacity", str(AT_ONCE)) as browsers:
        yield url, browsers.url


def check(servers: tuple[str, str], games: Sequence[tuple[str, InteractionMode]]) -> None:
    """Play these tasks, and check the result of each."""
    sites_url, browser_url = servers
    tasks = {task.task_id: task for split in SPLITS for task in load_tasks(split, sites_url)}
    results = asyncio.run(play_all(browser_url, [(tasks[name], mode) for name, mode in games]))
    wrong = {key: text for key, result in results.items() if (text := problem(key[0], result))}
    assert wrong == {}
    assert len(results) == len(games)


def problem(task_id: str, result: Played | Exception) -> str:
    """What is wrong with a result; empty if nothing is."""
    task, split = TASKS[task_id]
    if isinstance(result, Exception):
        return f"{result} {getattr(result, '__notes__', '')}"
    expected = (0, 0, True) if task.blocked else (0, 1, False)
    scores = (result.before.reward, result.after.reward, result.after.blocked)
    if scores != expected:
        reasons = [fact.reason for fact in result.after.facts if not fact.passed]
        return f"rewards and blocking {scores}: {reasons}"
    if not {incident.kind for incident in result.incidents} <= EXPECTED_INCIDENTS:
        return f"incidents {result.incidents}"
    if len(result.taken) > step_limit(task, split):
        return f"too many steps: {[str(action) for action in result.taken]}"
    return ""


def test_tasks_are_solved_by_their_solutions_and_not_by_doing_nothing(
    servers: tuple[str, str],
) -> None:
    by_site = {task.website.split("/")[3]: name for name, (task, _) in TASKS.items()}
    assert len(by_site) == 7
    chosen = sorted({*by_site.values(), WALL})
    check(servers, [(name, MODES[number % 2]) for number, name in enumerate(chosen)])


@pytest.mark.campaign
def test_every_task_is_solved_in_both_modes(servers: tuple[str, str]) -> None:
    check(servers, [(name, mode) for name in TASKS for mode in MODES])


def test_the_command_serves_until_it_is_stopped() -> None:
    with sites("--port", "0") as (process, url):
        with urllib.request.urlopen(f"{url}/shop/", timeout=PATIENCE) as answer:
            assert "Hearth &amp; Bramble" in answer.read().decode()
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
        assert process.stderr
        assert process.stderr.read() == ""


def test_a_port_that_is_in_use_is_rejected_with_advice(servers: tuple[str, str]) -> None:
    port = servers[0].rpartition(":")[2]
    again = subprocess.Popen(
        [sys.executable, "-m", "webgym.sites", "--port", port],
        cwd=Path.cwd(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    ended = finish(again)
    assert ended.status == 6
    assert f"cannot listen on 127.0.0.1 port {port}" in ended.stderr
    assert "choose another with --port" in ended.stderr
    assert "Traceback" not in ended.stderr
