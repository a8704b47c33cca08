"""MiniWoB++ in real Chromium: every page plays its episode, and some are solved."""

import asyncio
import re
import shutil
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import aiohttp
import msgspec
import pytest
from playwright.async_api import Browser, ConsoleMessage, Page, Request, async_playwright

from tests.e2e.miniwob_oracles import BY_MARKS, ORACLES, Hands, MarkedHands
from tests.integration.webgym.episode.playing import ListedAgent
from webgym.actions.space import FULL_SCALE, TOOLS, Action, Viewport
from webgym.actions.tool_calls import read_action
from webgym.browser.contract.answers import Observe, StepAnswer
from webgym.browser.contract.commands import InteractionMode, VisitPage
from webgym.browser.server import bind, browsers, url_of
from webgym.browser.server import serving as browsers_serving
from webgym.browser.settings import BrowserSettings
from webgym.client.client import BrowserClient
from webgym.context.page_view import AgentObservation, Round
from webgym.episode.interfaces import Decision
from webgym.miniwob.application import serving as miniwob_serving
from webgym.miniwob.episodes import EpisodeAddress, MiniWobState
from webgym.miniwob.package import Catalogue, MiniWobError, MiniWobTask, find_package
from webgym.miniwob.rows import MiniWobRow, load_tasks, read_instructions, state_url
from webgym.models.evaluator import Evaluator
from webgym.rollout.gym import AsyncWebGym
from webgym.rollout.iteration import read_report
from webgym.tasks.task import WebTask
from webgym.trajectory.records import ResponseRecord

CHROMIUM = shutil.which("chromium-headless-shell") or shutil.which("chromium")
PARALLEL = 6
PATIENCE = 60.0
try:
    CATALOGUE: Catalogue | None = Catalogue(find_package())
except MiniWobError:
    CATALOGUE = None

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium"),
    pytest.mark.skipif(CATALOGUE is None, reason="the pages of MiniWoB++ are not here"),
]


class World(NamedTuple):
    """A browser, and the tasks it can reach."""

    base: str
    browser: Browser | None
    asking: aiohttp.ClientSession

    async def new_page(self) -> Page:
        assert self.browser
        return await self.browser.new_page(viewport={"width": 1280, "height": 768})

    async def truth(self, page_url: str) -> MiniWobState:
        address = state_url(page_url)
        assert address
        async with self.asking.get(address) as response:
            return msgspec.json.decode(await response.read(), type=MiniWobState)

    async def truth_where(
        self, page_url: str, holds: Callable[[MiniWobState], bool]
    ) -> MiniWobState:
        """The truth as soon as this holds, or at last: pages report a moment after they act."""
        deadline = time.monotonic() + PATIENCE
        while True:
            truth = await self.truth(page_url)
            if holds(truth) or time.monotonic() > deadline:
                return truth
            await asyncio.sleep(0.02)


@asynccontextmanager
async def world() -> AsyncIterator[World]:
    async with (
        miniwob_serving(port=0) as base,
        async_playwright() as playwright,
        aiohttp.ClientSession() as asking,
    ):
        browser = await playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox"], timeout=60_000
        )
        try:
            yield World(base, browser, asking)
        finally:
            await browser.close()


class Visit(NamedTuple):
    """What opening a page led to."""

    task: str
    truth: MiniWobState
    complaints: tuple[str, ...]
    elsewhere: tuple[str, ...]


class Visitor:
    """A tab that notes what pages complain of, and what they ask for elsewhere."""

    def __init__(self, world: World, page: Page) -> None:
        self._world = world
        self._page = page
        self._complaints: list[str] = []
        self._elsewhere: list[str] = []
        page.on("pageerror", lambda error: self._complaints.append(str(error)))
        page.on("console", self._note_line)
        page.on("request", self._note_request)

    async def visit(self, task: MiniWobTask, seed: int) -> Visit:
        self._complaints.clear()
        self._elsewhere.clear()
        await self._page.goto(EpisodeAddress(task.name, seed).url(self._world.base))
        truth = await self._world.truth_where(self._page.url, lambda truth: truth.starts > 0)
        return Visit(task.name, truth, tuple(self._complaints), tuple(self._elsewhere))

    def _note_line(self, line: ConsoleMessage) -> None:
        if line.type == "error":
            self._complaints.append(line.text)

    def _note_request(self, request: Request) -> None:
        if not request.url.startswith((self._world.base, "data:")):
            self._elsewhere.append(request.url)


def visit_pages(tasks: Sequence[MiniWobTask]) -> list[Visit]:
    """Open the pages of these tasks, several at a time."""

    async def visit_all() -> list[Visit]:
        waiting = list(tasks)
        visits: list[Visit] = []
        async with world() as here:

            async def work() -> None:
                visitor = Visitor(here, await here.new_page())
                while waiting:
                    visits.append(await visitor.visit(waiting.pop(), seed=7))

            async with asyncio.TaskGroup() as workers:
                for _ in range(PARALLEL):
                    workers.create_task(work())
        return visits

    return asyncio.run(visit_all())


def check_visits(visits: Sequence[Visit]) -> None:
    assert [each.task for each in visits if not each.truth.instruction] == []
    assert {each.task: each.complaints for each in visits if each.complaints} == {}
    assert {each.task: each.elsewhere for each in visits if each.elsewhere} == {}
    assert [each.task for each in visits if each.truth.done or each.truth.seed != 7] == []


def test_a_page_starts_by_itself_and_shows_its_instruction() -> None:
    assert CATALOGUE
    tasks = list(CATALOGUE.tasks.values())
    assert len(tasks) >= 125
    check_visits(visit_pages(tasks[::10]))


@pytest.mark.campaign
def test_every_page_starts_by_itself_and_shows_its_instruction() -> None:
    assert CATALOGUE
    check_visits(visit_pages(list(CATALOGUE.tasks.values())))


Solving = Callable[[Page, str], Awaitable[None]]


def quoted(instruction: str) -> list[str]:
    return re.findall('"([^"]*)"', instruction)


async def click_button(page: Page, instruction: str) -> None:
    [name] = quoted(instruction)
    await page.locator("button").get_by_text(name, exact=True).first.click()


async def enter_text(page: Page, instruction: str) -> None:
    [text] = quoted(instruction)
    await page.fill("#tt", text)
    await page.click("#subbtn")


async def choose_list(page: Page, instruction: str) -> None:
    found = re.fullmatch(r"Select (.*) from the list and click Submit\.", instruction)
    assert found
    await page.select_option("#options", label=found[1])
    await page.click("button")


async def login_user(page: Page, instruction: str) -> None:
    name, password = quoted(instruction)
    await page.fill("#username", name)
    await page.fill("#password", password)
    await page.click("#subbtn")


async def close_dialog(page: Page, _: str) -> None:
    await page.click(".ui-dialog-titlebar-close")


async def press_the_other_button(page: Page, _: str) -> None:
    await page.get_by_text("TWO", exact=True).click()


async def submit_at_once(page: Page, _: str) -> None:
    await page.click("#subbtn")


SOLVED: dict[str, Solving] = {
    "click-button": click_button,
    "enter-text": enter_text,
    "choose-list": choose_list,
    "login-user": login_user,
    "click-dialog": close_dialog,
}
FAILED: dict[str, Solving] = {
    "click-test-2": press_the_other_button,
    "enter-text": submit_at_once,
}


async def played(world: World, name: str, solve: Solving, reward: int, raw_reward: float) -> None:
    page = await world.new_page()
    await page.goto(EpisodeAddress(name, 1).url(world.base))
    began = await world.truth_where(page.url, lambda truth: truth.starts > 0)
    assert began.instruction
    assert not began.done
    await solve(page, began.instruction)
    ended = await world.truth_where(page.url, lambda truth: truth.done)
    assert ended.done, name
    assert (ended.reward, ended.raw_reward) == (reward, raw_reward), ended


def test_solved_tasks_get_a_reward_and_failed_ones_get_none() -> None:
    async def run() -> None:
        async with world() as here, asyncio.TaskGroup() as players:
            for name, solve in SOLVED.items():
                players.create_task(played(here, name, solve, 1, 1.0))
            for name, fail in FAILED.items():
                players.create_task(played(here, name, fail, 0, -1.0))

    asyncio.run(run())


def test_the_seed_determines_the_instruction() -> None:
    names = ("enter-text", "email-inbox")

    async def run() -> None:
        async with world() as here:
            page = await here.new_page()

            async def asked(name: str, seed: int) -> str | None:
                await page.goto(EpisodeAddress(name, seed).url(here.base))
                began = await here.truth_where(page.url, lambda truth: truth.starts > 0)
                return began.instruction

            for name in names:
                several = [await asked(name, seed) for seed in (1, 2, 3)]
                assert len(set(several)) > 1
                assert await asked(name, 1) == several[0]

    asyncio.run(run())


def test_the_first_end_counts_and_the_page_does_not_begin_again() -> None:
    async def run() -> None:
        async with world() as here:
            page = await here.new_page()
            await page.goto(EpisodeAddress("click-test-2", 5, "mine").url(here.base))
            began = await here.truth_where(page.url, lambda truth: truth.starts > 0)
            await press_the_other_button(page, "")
            failed = await here.truth_where(page.url, lambda truth: truth.done)
            assert "This task has ended." in await page.inner_text("body")
            await page.reload()
            assert "This task has ended." in await page.inner_text("body")
            assert not await page.locator("button:visible").count()
            assert await here.truth(page.url) == failed
            async with here.asking.post(f"{here.base}/_reset/mine") as response:
                assert response.status == 200
            await page.reload()
            anew = await here.truth_where(page.url, lambda truth: truth.starts > 0)
            assert (anew.done, anew.instruction) == (False, began.instruction)

    asyncio.run(run())


def test_there_is_no_limit_on_the_time() -> None:
    async def run() -> None:
        async with world() as here:
            page = await here.new_page()
            await page.clock.install()
            for name in ("click-button", "book-flight"):
                await page.goto(EpisodeAddress(name, 5).url(here.base))
                await here.truth_where(page.url, lambda truth: truth.starts > 0)
                await page.clock.fast_forward("10:00:00")
                assert "This task has ended." not in await page.inner_text("body")
                assert not (await here.truth(page.url)).done

    asyncio.run(run())


def test_an_enlarged_page_has_its_clicks_where_they_are_made() -> None:
    async def run() -> None:
        async with world() as here:
            page = await here.new_page()
            await page.goto(EpisodeAddress("circle-center", 1, zoom=3).url(here.base))
            await here.truth_where(page.url, lambda truth: truth.starts > 0)
            [frame] = page.frames[1:]
            circle = await frame.locator("circle").first.bounding_box()
            assert circle
            assert circle["width"] > 3 * 30
            await page.mouse.click(
                circle["x"] + circle["width"] / 2, circle["y"] + circle["height"] / 2
            )
            await frame.locator("button").click()
            truth = await here.truth_where(page.url, lambda truth: truth.done)
            assert truth.reward == 1
            assert truth.raw_reward > 0.9

    asyncio.run(run())


# ---- with our own browser server, client and actions


@asynccontextmanager
async def own_servers() -> AsyncIterator[tuple[str, str]]:
    """The addresses of a browser server and of the tasks."""
    settings = BrowserSettings(port=0, capacity=2, allow_network=("loopback",))
    bound = bind(settings)
    try:
        async with (
            miniwob_serving(port=0) as base,
            browsers(settings, bound) as (pool, _),
            browsers_serving(settings, None, bound, pool),
        ):
            yield url_of(settings, bound), base
    finally:
        bound.close()


@asynccontextmanager
async def own_world() -> AsyncIterator[tuple[BrowserClient, str, aiohttp.ClientSession]]:
    async with (
        own_servers() as (url, base),
        BrowserClient(url) as client,
        aiohttp.ClientSession() as asking,
    ):
        yield client, base, asking


def aimed_at(step: StepAnswer, name: str, mode: InteractionMode, **arguments: object) -> Action:
    """What a model would call to act on the element of this name."""
    element = next(each for each in step.elements or () if name in (each.name, each.text, each.tag))
    verbs = {"coordinates": "left_click", "set_of_marks": "click"}
    verb = "type" if "text" in arguments else verbs[mode]
    aim: dict[str, object] = {"element_id": element.id}
    if mode == "coordinates":
        box, page = element.box, step.page
        x = (box.x + box.width / 2) / page.width * FULL_SCALE
        y = (box.y + box.height / 2) / page.height * FULL_SCALE
        aim = {"coordinate": [x, y]}
    return read_action(mode, TOOLS[mode], {"action": verb} | aim | arguments)


@pytest.mark.parametrize(("mode", "zoom"), [("coordinates", 3), ("set_of_marks", 1)])
def test_our_own_actions_solve_tasks(mode: InteractionMode, zoom: float) -> None:
    look = Observe(mode, elements=True)

    async def run() -> None:
        async with own_world() as (client, base, asking), client.session() as session:
            here = World(base, None, asking)

            async def open_task(name: str, seed: int) -> tuple[StepAnswer, str]:
                page = VisitPage(EpisodeAddress(name, seed, zoom=zoom).url(base))
                step = await session.step(page, look)
                truth = await here.truth_where(step.page.url, lambda truth: truth.starts > 0)
                assert truth.instruction
                return step, quoted(truth.instruction)[0]

            async def act(action: Action) -> StepAnswer:
                step = await session.step(action.to_command(Viewport()), look)
                assert step.error is None
                return step

            step, name = await open_task("click-button", 3)
            await act(aimed_at(step, name, mode))
            assert (await here.truth_where(step.page.url, lambda truth: truth.done)).reward == 1

            step, text = await open_task("enter-text", 4)
            step = await act(aimed_at(step, "input", mode, text=text))
            await act(aimed_at(step, "Submit", mode))
            assert (await here.truth_where(step.page.url, lambda truth: truth.done)).reward == 1

    asyncio.run(run())


class ButtonAgent(ListedAgent):
    """Clicks the button that the page names, and gives no answer."""

    observe = Observe(elements=True)

    async def decide(
        self, task: WebTask, past: Sequence[Round], current: AgentObservation, **_: object
    ) -> Decision:
        shown = StepAnswer(current.page, {}, elements=current.elements)
        name = quoted(task.task_name)[0]
        action = aimed_at(shown, name, "coordinates")
        return Decision(ResponseRecord(raw_response=str(action)), action)


def test_solved_tasks_are_solved_in_the_metrics_and_none_of_them_crashed(tmp_path: Path) -> None:
    async def run() -> None:
        async with own_servers() as (url, base), BrowserClient(url) as client:
            rows = load_tasks(base, range(4), ["click-button"], zoom=3)
            rows = await read_instructions(client, rows, parallel=2)
            gym = AsyncWebGym(
                host_ip="127.0.0.1",
                master_port=urlsplit(url).port or 0,
                sampled_tasks=[msgspec.to_builtins(row) for row in rows],
                save_path=tmp_path,
                num_workers=2,
                verbose=False,
            )
            async with Evaluator(None, tmp_path) as evaluator:
                await gym.collect(ButtonAgent([], evaluator))
            report = read_report(gym.paths.metrics)
            assert report is not None
            metrics = report.metrics
            assert (metrics.success_rate, metrics.solved, metrics.crashed) == (1.0, 4, 0)
            assert metrics.avg_steps == 2.0

    asyncio.run(run())


def test_rows_can_have_the_instructions_of_their_pages() -> None:
    async def run() -> list[MiniWobRow]:
        async with own_world() as (client, base, _):
            rows = load_tasks(base, range(2), ["click-test", "enter-text"], zoom=3)
            return await read_instructions(client, rows, parallel=2)

    rows = asyncio.run(run())
    assert [row.task_name for row in rows[::2]] == ["Click the button."] * 2
    assert all(row.task_name.startswith("Enter ") for row in rows[1::2])
    assert rows[1].task_name != rows[3].task_name


def missed_by_oracles(
    names: Iterable[str], seeds: Sequence[int], hands: type[Hands]
) -> dict[str, list[float | None]]:
    """The raw rewards of the oracles that did not solve their task."""
    missed: dict[str, list[float | None]] = {}

    async def solve(here: World, client: BrowserClient, name: str, seed: int) -> float | None:
        page = await here.new_page()
        try:
            await page.goto(EpisodeAddress(name, seed).url(here.base))
            async with client.session() as session:
                step = await session.step(VisitPage(EpisodeAddress(name, seed).url(here.base)))
                began = await here.truth_where(step.page.url, lambda truth: truth.starts > 0)
                await ORACLES[name](hands(session, page, began.instruction or ""))
                truth = await here.truth_where(step.page.url, lambda truth: truth.done)
                return None if truth.reward == 1 else truth.raw_reward
        except Exception as error:
            error.add_note(f"this was {name} with seed {seed}")
            raise
        finally:
            await page.close()

    async def run() -> None:
        async with (
            own_world() as (client, base, asking),
            async_playwright() as playwright,
        ):
            browser = await playwright.chromium.launch(
                executable_path=CHROMIUM, args=["--no-sandbox"], timeout=60_000
            )
            here = World(base, browser, asking)
            for name in names:
                for seed in seeds:
                    raw = await solve(here, client, name, seed)
                    if raw is not None:
                        missed.setdefault(name, []).append(raw)
            await browser.close()

    asyncio.run(run())
    return missed


@pytest.mark.campaign
@pytest.mark.timeout(900)
def test_the_actions_solve_all_tasks_that_need_more_than_clicks_and_text() -> None:
    assert missed_by_oracles(ORACLES, range(4), Hands) == {}


@pytest.mark.campaign
@pytest.mark.timeout(900)
def test_marks_are_enough_for_all_of_them_but_selecting_text_and_places_in_pictures() -> None:
    assert missed_by_oracles(sorted(BY_MARKS), range(3), MarkedHands) == {}


def test_the_command_writes_rows_with_their_instructions(tmp_path: Path) -> None:
    file = tmp_path / "tasks.jsonl"
    command = [sys.executable, "-m", "webgym.miniwob", "--write-tasks", str(file)]
    command += [
        "--tasks",
        "enter-text",
        "--seeds",
        "3-4",
        "--base-url",
        "http://tasks.example:7310",
    ]
    subprocess.run(command, check=True, timeout=120)
    rows = [msgspec.json.decode(line, type=MiniWobRow) for line in file.read_bytes().splitlines()]
    assert [row.website[:34] for row in rows] == ["http://tasks.example:7310/task/ent"] * 2
    pattern = r'Enter "\w+" into the text field and press Submit\.'
    assert all(re.fullmatch(pattern, row.task_name) for row in rows)
