"""Real runs that begin while the viewer has their folder open, followed to their ends.

A collection of a tool agent and an iteration of web rollouts are played once, at the same time,
while four pages look on that are never loaded again. What they show is written down several times a
second; the tests are about these notes.
"""

import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from itertools import groupby
from typing import Any, NamedTuple

import pytest
from playwright.sync_api import Browser, Page

from tests.e2e.command import finish, rollgym
from tests.e2e.rolling import Iteration, Rollout, number_task, stage, write_tasks
from tests.e2e.viewer.demo_output import AGENT, COMMANDS, start
from tests.e2e.viewer.serving import Viewer, viewing, visiting

pytestmark = pytest.mark.campaign  # four real runs, watched from start to end

COLLECTED = 25
PLAYED = 9
AT_ONCE = 3
SLOWLY = "+policy_model.responses_api_models.scripted_model.latency=0.3"
AGENT_RUN, WEB_RUN = "agent.jsonl", "shopping train iteration 0"
APPEARS_WITHIN = 30.0
PATIENCE = 60.0
LOOK = """() => {
  const words = (selector) => document.querySelector(selector)?.textContent ?? "";
  const runs = [...document.querySelectorAll("[aria-label=Runs] tbody tr")];
  return {
    stayed: window.stayed === true,
    runs: Object.fromEntries(runs.map((row) =>
      [row.querySelector("a").textContent, [row.cells[3].textContent, row.cells[6].textContent]])),
    header: words("header.top .run-status"),
    rollouts: words(".tile-value"),
    listed: words(".total"),
    note: words(".page-head [role=status]"),
    grid: document.querySelector(".cell-grid canvas")?.ariaLabel ?? "",
    running: document.querySelectorAll("table.running tbody tr").length,
  };
}"""


class Look(NamedTuple):
    """What the pages showed at a moment, in seconds since the runs began."""

    at: float
    runs: dict[str, Any]
    overview: dict[str, Any]
    listed: dict[str, Any]
    live: dict[str, Any]


class Story(NamedTuple):
    looks: list[Look]
    agent_ended: float
    web_ended: float

    def rollouts(self, run: str) -> list[str]:
        """How many the list of runs gave, at each look; "" while the run was not there."""
        return [look.runs["runs"].get(run, ("", ""))[0] for look in self.looks]

    def states(self, run: str) -> list[str]:
        return [look.runs["runs"].get(run, ("", ""))[1] for look in self.looks]


def changes(shown: Iterable[str]) -> list[str]:
    """One after another, without what was the same at the look before, or said nothing yet."""
    return [words for words, _ in groupby(shown) if words and not words.startswith("reading")]


def grows_to(shown: Iterable[str], last: int) -> None:
    """The numbers that the texts begin with went up, in more than one step."""
    numbers = [int(words.split()[0]) for words in changes(shown) if words[0].isdigit()]
    assert numbers == sorted(numbers)
    assert len(numbers) >= 2
    assert numbers[-1] == last


class Pages:
    """Four pages that begin at the list of runs and go on by clicks alone."""

    def __init__(self, stack: ExitStack, browser: Browser, viewer: Viewer) -> None:
        self._pages = [stack.enter_context(visiting(browser, viewer)).go("/") for _ in range(4)]
        for page in self._pages:
            page.get_by_role("heading", name="Runs").wait_for()
            page.evaluate("window.stayed = true")
        self.runs, self.overview, self.listed, self.live = self._pages

    def look(self, at: float) -> Look:
        self._go_on(self.overview, AGENT_RUN, None)
        self._go_on(self.listed, AGENT_RUN, "Rollouts")
        self._go_on(self.live, WEB_RUN, "Live")
        fresh = self.listed.locator("button.fresh")
        if fresh.is_visible():
            fresh.click()
        return Look(at, *(page.evaluate(LOOK) for page in self._pages))

    def _go_on(self, page: Page, run: str, tab: str | None) -> None:
        """To a view of a run, as soon as it is there."""
        link = page.locator(".runs").get_by_role("link", name=run)
        if link.is_visible():
            link.click()
            if tab is not None:
                page.get_by_role("navigation", name="Views").get_by_role("link", name=tab).click()


def is_over(look: Look) -> bool:
    states = {state for _, state in look.runs["runs"].values()}
    return len(look.runs["runs"]) == 4 and states == {"ended"} and not look.live["header"]


@pytest.fixture(scope="module")
def story(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    folder = tmp_path_factory.mktemp("live")
    results = folder / "results"
    for name in ("first", "second"):
        output = f"+output_jsonl_fpath=results/{name}.jsonl"
        ended = rollgym(folder, "demo", output, "+num_repeats=1")
        assert ended.status == 0, ended.stderr
    with ExitStack() as stack:
        servers = stack.enter_context(stage(folder, latency=0.5))
        viewer = stack.enter_context(viewing([results]))
        pages = Pages(stack, browser, viewer)
        began = time.monotonic()
        agent = start(
            folder,
            *(COMMANDS / AGENT[0], *AGENT[1:4], f"+num_repeats={COLLECTED // 5}"),
            *("+num_samples_in_parallel=3", "+output_jsonl_fpath=results/agent.jsonl", SLOWLY),
        )
        stack.callback(agent.kill)
        tasks = write_tasks(folder, (number_task(number, slowly=True) for number in range(PLAYED)))
        web = Rollout(servers, results / "shopping", *tasks, f"env_config.server_size={AT_ONCE}")
        stack.callback(web.process.kill)
        looks: list[Look] = []
        ends: dict[str, float] = {}
        while not looks or not is_over(looks[-1]):
            now = time.monotonic() - began
            assert now < PATIENCE, looks[-1]
            for name, process in (("agent", agent), ("web", web.process)):
                if process.poll() is not None:
                    ends.setdefault(name, now)
            looks.append(pages.look(now))
            pages.runs.wait_for_timeout(200)
        for ended in (finish(agent), web.end()):
            assert ended.status == 0, ended.stdout + ended.stderr
        assert len(Iteration(results / "shopping").ends) == PLAYED
        yield Story(looks, ends["agent"], ends["web"])


def test_a_run_that_begins_later_appears_by_itself(story: Story) -> None:
    assert set(story.looks[0].runs["runs"]) == {"first.jsonl", "second.jsonl"}
    for run in (AGENT_RUN, WEB_RUN):
        appeared = next(at for at, words in enumerate(story.rollouts(run)) if words)
        assert story.looks[appeared].at < APPEARS_WITHIN


def test_no_page_was_loaded_again(story: Story) -> None:
    for look in story.looks:
        assert all(page["stayed"] for page in look[1:])


def test_the_runs_count_what_has_come(story: Story) -> None:
    for run, expected in ((AGENT_RUN, COLLECTED), (WEB_RUN, PLAYED)):
        grows_to(story.rollouts(run), expected)
        assert story.rollouts(run)[-1] == f"{expected} / {expected}"


def test_the_overview_counts_what_has_come(story: Story) -> None:
    grows_to((look.overview["rollouts"] for look in story.looks), COLLECTED)


def test_the_list_grows_when_that_is_asked_for(story: Story) -> None:
    grows_to((look.listed["listed"] for look in story.looks), COLLECTED)


def test_the_grid_of_a_web_run_changes_as_its_rollouts_run_and_end(story: Story) -> None:
    grids = changes(look.live["grid"] for look in story.looks)
    assert any("running" in grid for grid in grids)
    assert len(grids) > 2
    assert grids[-1] == f"{PLAYED} squares: {PLAYED} success"
    running = [look.live["running"] for look in story.looks]
    assert max(running) >= AT_ONCE
    assert running[-1] == 0


def test_what_is_live_says_so_until_it_has_ended(story: Story) -> None:
    ends = {AGENT_RUN: story.agent_ended, WEB_RUN: story.web_ended}
    for run, ended in ends.items():
        states = story.states(run)
        assert changes(states) == ["live", "ended"]
        assert story.looks[states.index("ended")].at > ended
    for headers in (
        [look.overview["header"] for look in story.looks],
        [look.live["header"] for look in story.looks],
    ):
        assert changes(headers) == ["live"]
        assert headers[-1] == ""
    assert story.looks[-1].live["note"] == "This run has ended."
