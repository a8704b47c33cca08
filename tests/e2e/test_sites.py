"""Every task on the test sites is solved by its recorded solution, in our own browser server.

The solutions are played several at a time in both interaction modes, against the real commands:
`webgym.sites` and `webgym.browser serve`.
"""

import asyncio
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.e2e.browsing import server
from tests.e2e.command import PATIENCE, finish
from tests.e2e.solving import AT_ONCE, MODES, Played, Results, play_all, sites, step_limit
from webgym.browser.chromium.executable import NoBrowserError, find_browser
from webgym.sites.tasks import SPLITS, load_tasks

TASKS = {task.task_id: (task, split) for split in SPLITS for task in load_tasks(split)}
EXPECTED_INCIDENTS = {"dialog", "new_tab"}

# All the tasks are played in the set-up of the first test.
pytestmark = pytest.mark.timeout(400)


@pytest.fixture(scope="module")
def results() -> Results:
    try:
        find_browser()
    except NoBrowserError as error:
        pytest.skip(str(error))
    with sites("--port", "0") as (_, url), server("--capacity", str(AT_ONCE)) as browsers:
        tasks = [task for split in SPLITS for task in load_tasks(split, url)]
        games = [(task, mode) for task in tasks for mode in MODES]
        return asyncio.run(play_all(browsers.url, games))


@pytest.fixture
def played(results: Results, request: pytest.FixtureRequest) -> Played:
    result = results[request.param]
    if isinstance(result, Exception):
        raise result
    return result


def games(*, blocked: bool) -> pytest.MarkDecorator:
    """Each task in each mode."""
    keys = [
        (task_id, mode)
        for task_id, (task, _) in TASKS.items()
        for mode in MODES
        if task.blocked is blocked
    ]
    return pytest.mark.parametrize("played", keys, ids="-".join, indirect=True)


@games(blocked=False)
def test_a_task_is_solved_by_its_solution_and_not_by_doing_nothing(played: Played) -> None:
    assert played.before.reward == 0
    assert [fact.reason for fact in played.after.failed] == []
    assert played.after.reward == 1
    assert {incident.kind for incident in played.incidents} <= EXPECTED_INCIDENTS


@games(blocked=True)
def test_a_task_behind_the_wall_ends_blocked(played: Played) -> None:
    assert (played.after.reward, played.after.blocked) == (0, True)


@pytest.mark.parametrize("mode", MODES)
def test_the_steps_of_a_task_suffice_for_its_solution(results: Results, mode: str) -> None:
    played = {key[0]: each for key, each in results.items() if key[1] == mode}
    too_long = {
        task_id: [str(action) for action in game.taken]
        for task_id, game in played.items()
        if isinstance(game, Played) and len(game.taken) > step_limit(*TASKS[task_id])
    }
    assert too_long == {}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_command_serves_until_it_is_stopped(number: signal.Signals) -> None:
    with sites("--port", "0") as (process, url):
        with urllib.request.urlopen(f"{url}/shop/", timeout=PATIENCE) as answer:
            assert "Hearth &amp; Bramble" in answer.read().decode()
        process.send_signal(number)
        assert process.wait(PATIENCE) == 0
        assert process.stderr
        assert process.stderr.read() == ""


def test_a_port_that_is_taken_is_refused_with_advice() -> None:
    with sites("--port", "0") as (_, url):
        port = url.rpartition(":")[2]
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
