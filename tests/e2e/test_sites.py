"""Every task on the test sites is solved by its recorded solution in a real browser.

The solutions are played side by side, each in a context of its own, against the real command.
"""

import asyncio
import contextlib
import json
import re
import select
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from playwright.async_api import Browser, BrowserContext, Locator, Page, async_playwright
from playwright.async_api import Error as PlaywrightError

from tests.e2e.command import PATIENCE, finish
from webgym.browser.chromium.executable import NoBrowserError, find_browser
from webgym.sites.names import new_name
from webgym.sites.tasks import (
    SPLITS,
    Action,
    ActionKind,
    Solution,
    Task,
    load_solutions,
    load_tasks,
    start_url,
)
from webgym.sites.verify import Verdict, verify

VIEWPORT = {"width": 1280, "height": 768}
AT_ONCE = 4
ACTION_SECONDS = 15.0
NAVIGATION_SECONDS = 0.15
ROLES = (
    "button",
    "link",
    "checkbox",
    "radio",
    "switch",
    "tab",
    "option",
    "textbox",
    "searchbox",
    "combobox",
    "spinbutton",
)
TASKS = {task.task_id: task for split in SPLITS for task in load_tasks(split)}

# All the tasks are played in the set-up of the first test.
pytestmark = pytest.mark.timeout(400)


@contextlib.contextmanager
def served(*arguments: str) -> "Iterator[tuple[subprocess.Popen[str], str]]":
    """The command in a process of its own, and the URL that it printed."""
    process = subprocess.Popen(
        [sys.executable, "-m", "webgym.sites", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            assert process.stdout
            ready, _, _ = select.select([process.stdout], [], [], PATIENCE)
            line = process.stdout.readline() if ready else ""
            found = re.search(r"http://\S+", line)
            assert found, f"no URL in {line!r}"
            yield process, found[0].rstrip("/")
        finally:
            process.kill()


class Player:
    """Plays a solution in a browser context, on its newest tab."""

    def __init__(self, context: BrowserContext) -> None:
        self._context = context
        self._pages: list[Page] = []
        self._navigating = asyncio.Event()
        context.on("page", self._follow)

    @property
    def page(self) -> Page:
        return self._pages[-1]

    def _follow(self, page: Page) -> None:
        self._pages.append(page)
        page.on("dialog", lambda dialog: dialog.accept())
        page.on(
            "request",
            lambda request: (
                self._navigating.set()
                if request.is_navigation_request() and request.frame == page.main_frame
                else None
            ),
        )

    async def open(self, url: str) -> None:
        await self._context.new_page()
        await self.page.goto(url)

    async def play(self, solution: Solution) -> None:
        for action in solution.actions:
            try:
                async with asyncio.timeout(ACTION_SECONDS):
                    await self._act(action)
            except TimeoutError as error:
                raise AssertionError(f"{action} cannot be done at {self.page.url}") from error

    async def _act(self, action: Action) -> None:
        self._navigating.clear()
        match action.kind:
            case ActionKind.CLICK:
                await (await self._target(action.target)).click()
            case ActionKind.HOVER:
                await (await self._target(action.target)).hover()
            case ActionKind.TYPE:
                field = await self._target(action.target)
                await field.fill(action.value)
                await field.press("Enter")
            case ActionKind.SELECT:
                await (await self._target(action.target)).select_option(label=action.value)
            case ActionKind.PRESS:
                await self.page.keyboard.press(action.value)
            case ActionKind.SCROLL:
                await self.page.mouse.wheel(0, 700 if action.value == "down" else -700)
            case ActionKind.BACK:
                await self.page.go_back()
            case ActionKind.SEE:
                await self._see(action.value)
                return
            case ActionKind.ANSWER:
                return
        await self._settle()

    async def _settle(self) -> None:
        """Where the action led to another page, wait until it is there."""
        try:
            async with asyncio.timeout(NAVIGATION_SECONDS):
                await self._navigating.wait()
        except TimeoutError:
            return
        await self.page.wait_for_load_state("load")

    async def _target(self, name: str) -> Locator:
        return await self._find(lambda frame: _named(frame, name)) or await self._never(name)

    async def _see(self, text: str) -> None:
        """Wait for the text, scrolling on now and then: it may be loaded only then."""
        found = None
        while found is None:
            found = await self._find(lambda frame: frame.get_by_text(text), 0.5)
            if found is None:
                await self.page.mouse.wheel(0, 700)
        await found.scroll_into_view_if_needed()

    async def _find(
        self, make: Callable[[Any], Locator], seconds: float = ACTION_SECONDS
    ) -> Locator | None:
        """What can be seen of it first, in any frame of the page."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for frame in self.page.frames:
                found = make(frame).filter(visible=True).first
                with contextlib.suppress(PlaywrightError):  # the page is just being replaced
                    if await found.count():
                        return found
            await asyncio.sleep(0.03)
        return None

    async def _never(self, name: str) -> Locator:
        raise AssertionError(f"there is no {name!r} at {self.page.url}")


def _named(frame: Any, name: str) -> Locator:
    found: Locator = frame.get_by_label(name, exact=True)
    for role in ROLES:
        found = found.or_(frame.get_by_role(role, name=name, exact=True))
    return found


class Played(msgspec.Struct):
    """What came of a task: the verdict before anything was done, and the one at the end."""

    before: Verdict
    after: Verdict
    outside: list[str]


def truth_of(url: str, session: str) -> dict[str, object]:
    with urllib.request.urlopen(f"{url}/_truth/{session}", timeout=PATIENCE) as answer:
        truth: dict[str, object] = json.load(answer)
        return truth


async def play(browser: Browser, url: str, task: Task, solution: Solution) -> Played:
    session, outside = new_name(), list[str]()
    context = await browser.new_context(viewport=VIEWPORT)  # type: ignore[arg-type]
    context.on(
        "request",
        lambda request: (
            outside.append(request.url)
            if not request.url.startswith((url, "data:", "about:"))
            else None
        ),
    )
    try:
        player = Player(context)
        await player.open(start_url(task, session))
        before = verify(task, None, await asyncio.to_thread(truth_of, url, session))
        await player.play(solution)
        truth = await asyncio.to_thread(truth_of, url, session)
        return Played(before, verify(task, solution.answer, truth), outside)
    finally:
        await context.close()


async def play_all(url: str, executable: Path) -> dict[str, Played | BaseException]:
    solutions, slots = load_solutions(), asyncio.Semaphore(AT_ONCE)
    results: dict[str, Played | BaseException] = {}

    async def one(browser: Browser, task: Task) -> None:
        async with slots:
            try:
                results[task.task_id] = await play(browser, url, task, solutions[task.task_id])
            except Exception as error:  # noqa: BLE001 - shown by the task's own test
                results[task.task_id] = error

    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=executable, args=["--no-sandbox"]
        )
        async with asyncio.TaskGroup() as group:
            for split in SPLITS:
                for task in load_tasks(split, url):
                    group.create_task(one(browser, task))
        await browser.close()
    return results


@pytest.fixture(scope="module")
def results() -> dict[str, Played | BaseException]:
    try:
        executable = find_browser().path
    except NoBrowserError as error:
        pytest.skip(str(error))
    with served("--port", "0") as (_, url):
        return asyncio.run(play_all(url, executable))


@pytest.fixture
def played(results: dict[str, Played | BaseException], request: pytest.FixtureRequest) -> Played:
    result = results[request.param]
    if isinstance(result, BaseException):
        raise result
    return result


every_task = pytest.mark.parametrize(
    "played", [each for each, task in TASKS.items() if not task.blocked], indirect=True
)
every_wall = pytest.mark.parametrize(
    "played", [each for each, task in TASKS.items() if task.blocked], indirect=True
)


@every_task
def test_a_task_is_solved_by_its_solution_and_not_by_doing_nothing(played: Played) -> None:
    assert played.before.reward == 0
    assert [fact.reason for fact in played.after.failed] == []
    assert played.after.reward == 1
    assert played.outside == []


@every_wall
def test_a_task_behind_the_wall_ends_blocked(played: Played) -> None:
    assert (played.after.reward, played.after.blocked) == (0, True)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_command_serves_until_it_is_stopped(number: signal.Signals) -> None:
    with served("--port", "0") as (process, url):
        with urllib.request.urlopen(f"{url}/shop/", timeout=PATIENCE) as answer:
            assert "Hearth &amp; Bramble" in answer.read().decode()
        process.send_signal(number)
        assert process.wait(PATIENCE) == 0
        assert process.stderr
        assert process.stderr.read() == ""


def test_a_port_that_is_taken_is_refused_with_advice() -> None:
    with served("--port", "0") as (_, url):
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
