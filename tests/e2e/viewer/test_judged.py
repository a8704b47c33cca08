"""A web iteration of two ranks, part of it decided by a judge, part before a wall.

The rollouts are real ones, played once by recorded policies in a real browser. They are looked at
in the journals of both ranks together, and in the `.pt` that the ranks leave.
"""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.builders import read_json_lines
from tests.e2e.rolling import (
    Iteration,
    Record,
    Rollout,
    judge,
    judged,
    number_task,
    stage,
    write_tasks,
)
from tests.e2e.viewer.demo_output import steps_of
from tests.e2e.viewer.looking import SCREENSHOT, centre, entries, loaded, total
from tests.e2e.viewer.serving import Viewer, Visit, viewing, visiting

pytestmark = pytest.mark.campaign  # every view over judged web rollouts of two ranks

RANKS = 2
ASKED = 3
WALL: Record = {
    "task_id": "wall",
    "task_name": "What does a ticket for the evening concert on 12 June cost?",
    "website": "{sites}/captcha/",
    "domain": "Entertainment",
    "subdomain": "Tickets",
    "difficulty": 2,
    "evaluator_reference": [],
    "definite_answer": None,
    "verifier": "sites",
    "truth": [],
    "blocked": True,
}
BOTH = pytest.mark.parametrize("source", ["ranked-train-0", "ranked-train-0-pt"])


class Played(NamedTuple):
    """The folder of the experiment, and the lines of all journals."""

    folder: Path
    records: list[Record]

    @property
    def torch(self) -> Path:
        return Iteration(self.folder).paths.trajectories

    def result(self, task_id: str) -> Record:
        """The attempt at a task."""
        ids = [record["outcome"]["result"]["task_id"] for record in self.records]
        return self.records[ids.index(task_id)]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Played:
    folder = tmp_path_factory.mktemp("judged")
    asked = [judged(number_task(number, slowly=True)) for number in range(ASKED)]
    with stage(folder) as servers, judge(folder, "pass") as judging:
        options = [*judging, *write_tasks(folder, [*asked, WALL])]
        variables = [{"RANK": str(rank), "WORLD_SIZE": str(RANKS)} for rank in range(RANKS)]
        ranks = [
            Rollout(servers, folder / "ranked", *options, variables=each) for each in variables
        ]
        for rank in ranks:
            ended = rank.end()
            assert ended.status == 0, ended.stdout + ended.stderr
    runs = [Iteration(folder / "ranked", suffix=f"_rank_{rank}").paths.run for rank in range(RANKS)]
    records = [record for run in runs for record in read_json_lines(run / "journal.jsonl")]
    assert len(records) == ASKED + 1
    return Played(folder / "ranked", records)


@pytest.fixture(scope="module")
def viewer(played: Played) -> Iterator[Viewer]:
    with viewing([played.folder, played.torch]) as running:
        yield running


@pytest.fixture
def visit(browser: Browser, viewer: Viewer) -> Iterator[Visit]:
    with visiting(browser, viewer) as started:
        yield started


def open_task(visit: Visit, source: str, task_id: str, step: int = 1) -> Page:
    """The page of the only rollout of a task, at a step."""
    listed = entries(visit.viewer, source)
    (entry,) = (each for each in listed if each["fields"]["task_id"] == task_id)
    return visit.go(f"/s/{source}/rollouts/{entry['id']}?step={step}")


@BOTH
def test_the_screenshots_that_the_judge_saw_are_marked(
    visit: Visit, played: Played, source: str
) -> None:
    result = played.result("number-1")["outcome"]["result"]
    page = open_task(visit, source, "number-1")
    frames = page.locator(".film .frame")
    expect(frames).to_have_count(len(result["steps"]))
    for at in range(len(result["steps"])):
        loaded(frames.nth(at).locator("img"))
        seen = at in result["keypoint_step_ids"]
        expect(frames.nth(at).locator(".frame-judged")).to_have_count(int(seen))
        expect(page.locator(".step-bar h2")).to_have_text(f"Step {at + 1} of 4")
        expect(page.locator(".shot").get_by_text("judged", exact=True)).to_have_count(int(seen))
        if seen:
            why = result["steps"][at]["reward"]["submission_judgment"]
            expect(page.locator(".step-note", has_text="Judge")).to_contain_text(why)
        page.keyboard.press("ArrowRight")
    assert 0 < len(result["keypoint_step_ids"]) < len(result["steps"])


@BOTH
def test_what_the_judge_said_is_above_the_steps(visit: Visit, played: Played, source: str) -> None:
    steps = steps_of(played.result("number-1"))
    evaluation = steps[-1]["reward"]["evaluation"]
    page = open_task(visit, source, "number-1")
    expect(page.locator(".rollout-outcome .badge")).to_contain_text("1success")
    section = page.locator("details.section").filter(has=page.get_by_role("heading", name="Judge"))
    expect(section.get_by_text("judge", exact=True)).to_be_in_viewport()
    section.locator(".verdict-rest > summary").click()
    for button in section.locator(".more").all():
        button.click()
    expect(section).to_contain_text(evaluation["judge"])
    for finding in evaluation["criteria"].values():
        expect(section).to_contain_text(f"{finding['verdict']}: {finding['reason']}")
        for fact in finding.get("facts", ()):
            expect(section).to_contain_text(fact["fact"])
    for step in steps[:-1]:
        expect(section).to_contain_text(step["reward"]["submission_judgment"])


@BOTH
@pytest.mark.parametrize(("step", "direction"), [(1, "down"), (2, "up")])
def test_a_scroll_is_drawn_as_an_arrow(
    visit: Visit, source: str, step: int, direction: str
) -> None:
    page = open_task(visit, source, "number-0", step)
    loaded(page.locator(SCREENSHOT))
    expect(page.locator(".step-did")).to_contain_text(f"scroll {direction}")
    expect(page.locator(".mark-label")).to_have_text(direction)
    x, y = centre(page.locator(".mark-arrow .mark-line"))
    assert x == pytest.approx(0.5, abs=0.01)
    assert (y > 0.5) == (direction == "down")


@BOTH
def test_a_wall_is_shown_as_one_and_not_as_a_failure(
    visit: Visit, played: Played, source: str
) -> None:
    page = open_task(visit, source, "wall")
    badge = page.locator(".rollout-outcome .badge")
    expect(badge).to_contain_text("blocked")
    expect(badge).not_to_contain_text("no success")
    reason = steps_of(played.result("wall"))[-1]["reward"]["evaluation"]["blocking"]["reason"]
    expect(page.locator(".verdict")).to_contain_text(f"blocked: {reason}")
    visit.go(f"/s/{source}/rollouts?domain=Entertainment")
    expect(page.locator(".row:not(.head) .outcome")).to_contain_text("blocked")
    visit.go(f"/s/{source}/rollouts?success=false")
    assert total(page) == 0
    visit.go(f"/s/{source}/tasks")
    cell = page.locator(".row .profile-cell.blocked")
    expect(cell).to_have_attribute("aria-label", re.compile("blocked"))
    background = cell.evaluate("(cell) => getComputedStyle(cell).backgroundImage")
    assert background.count("repeating-linear-gradient") == 2
    expect(page.get_by_role("list", name="Cells")).to_contain_text("blocked")
    visit.go(f"/s/{source}/live")
    expect(page.get_by_role("list", name="States")).to_contain_text("blocked1")


@BOTH
def test_a_click_at_coordinates_is_drawn_at_its_stored_pixel(
    visit: Visit, played: Played, source: str
) -> None:
    step = steps_of(played.result("wall"))[0]
    seen, (x, y) = step["observation"]["page"], step["action"]["pixel"]
    page = open_task(visit, source, "wall")
    loaded(page.locator(SCREENSHOT))
    place = (x / seen["width"], y / seen["height"])
    assert centre(page.locator(".mark-dot")) == pytest.approx(place, abs=0.002)


def test_ranks_are_one_source_whose_coverage_adds_up(visit: Visit, played: Played) -> None:
    assert visit.viewer.sources() == ["ranked-train-0", "ranked-train-0-pt"]
    shares = [len(Iteration(played.folder, suffix=f"_rank_{rank}").ends) for rank in range(RANKS)]
    assert all(shares)
    page = visit.go("/s/ranked-train-0/")
    numbers = page.get_by_role("region", name="Key figures")
    expect(numbers).to_contain_text(f"Rollouts{sum(shares)}of {sum(shares)} expected")
    expect(numbers).to_contain_text(f"completed{sum(shares)}failed0omitted0unresolved0")
    expect(numbers).to_contain_text(f"{ASKED} of {ASKED} judged")
    listed = entries(visit.viewer, "ranked-train-0", "sort=task")
    assert [entry["task"] for entry in listed] == list(range(ASKED + 1))
    assert {str(entry["id"]).partition("-")[0] for entry in listed} == {"0", "1"}


def test_what_a_rank_has_not_played_yet_is_unresolved(
    browser: Browser, played: Played, tmp_path: Path
) -> None:
    """As it is before the second rank has begun: the sample says what it will play."""
    folder = tmp_path / "ranked"
    later = shutil.ignore_patterns("*_rank_1*", "*.pt.*", "metrics.*", ".*")
    shutil.copytree(played.folder, folder, ignore=later)
    share = len(Iteration(folder, suffix="_rank_0").ends)
    with viewing([folder]) as viewer, visiting(browser, viewer) as visit:
        page = visit.go("/s/ranked-train-0/")
        numbers = page.get_by_role("region", name="Key figures")
        expect(numbers).to_contain_text(f"Rollouts{share}of {ASKED + 1} expected")
        expect(numbers).to_contain_text(f"completed{share}failed0omitted0")
        expect(numbers).to_contain_text(f"unresolved{ASKED + 1 - share}")
