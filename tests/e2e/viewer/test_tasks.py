"""Tasks with their repeats as cells."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e.viewer.population import REPEATS, TASKS, populate
from tests.e2e.viewer.serving import PHONE, Viewer, Visit, overflows, viewing, visiting

PATH = "/s/rollouts/tasks"


@pytest.fixture(scope="module")
def viewer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Viewer]:
    path = tmp_path_factory.mktemp("tasks") / "rollouts.jsonl"
    populate(path)
    with viewing([path]) as served:
        yield served


@pytest.fixture
def visit(browser: Browser, viewer: Viewer) -> Iterator[Visit]:
    with visiting(browser, viewer) as begun:
        yield begun


def means(page: Page) -> list[float]:
    cells = page.locator(".row:not(.head) .task-mean")
    expect(cells.first).to_be_visible()
    return [float(text) for text in cells.all_inner_texts() if text[0].isdigit()]


def test_each_task_has_a_cell_for_each_repeat_that_says_what_came_of_it(visit: Visit) -> None:
    page = visit.go(PATH)
    expect(page.locator(".total")).to_have_text(f"{TASKS} tasks")
    row = page.locator(".row:not(.head)").first
    cells = row.locator(".profile-cell")
    expect(cells).to_have_count(REPEATS)
    expect(cells.first).to_have_attribute("aria-label", "Repeat 0: no success, reward 0")
    cells.nth(2).hover()
    expect(page.locator(".tip")).to_contain_text("Repeat 2")


@pytest.mark.campaign
def test_a_cell_that_failed_differs_by_more_than_its_colour(visit: Visit) -> None:
    page = visit.go(PATH)
    failed = page.locator(".profile-cell.failed").first
    expect(failed).to_have_attribute("aria-label", re.compile(r"^Repeat \d: failed$"))
    background = failed.evaluate("(cell) => getComputedStyle(cell).backgroundImage")
    assert "repeating-linear-gradient" in background


def test_a_cell_leads_to_its_rollout(visit: Visit) -> None:
    page = visit.go(PATH + "?domain=rail")
    expect(page.locator(".total")).to_have_text(f"{TASKS // 4} tasks")
    page.locator(".profile-cell").first.click()
    page.wait_for_url(re.compile(r"/s/rollouts/rollouts/\d+-\d+\?domain=rail$"))


def test_a_task_leads_to_its_repeats_side_by_side(visit: Visit) -> None:
    page = visit.go(PATH)
    page.get_by_role("link", name="Task 5:").click()
    page.wait_for_url("**/s/rollouts/tasks/5")


@pytest.mark.campaign
def test_tasks_are_sorted_by_their_headers(visit: Visit) -> None:
    page = visit.go(PATH)
    header = page.get_by_role("columnheader", name="Mean")
    header.get_by_role("button").click()
    page.wait_for_url("**?sort=mean")
    expect(header).to_have_attribute("aria-sort", "ascending")
    page.wait_for_load_state("networkidle")
    assert means(page) == sorted(means(page))
    header.get_by_role("button").click()
    page.wait_for_url("**?sort=mean&order=desc")
    page.wait_for_load_state("networkidle")
    assert means(page) == sorted(means(page), reverse=True)


@pytest.mark.campaign
def test_tasks_fit_on_a_phone(browser: Browser, viewer: Viewer) -> None:
    with visiting(browser, viewer, PHONE) as visit:
        page = visit.go(PATH)
        expect(page.locator(".profile-cell").first).to_be_visible()
        assert not overflows(page)


@pytest.mark.campaign
def test_tasks_and_their_repeats_are_walked_with_the_keyboard(visit: Visit) -> None:
    page = visit.go(PATH)
    expect(page.locator(".total")).to_have_text(f"{TASKS} tasks")
    for key in ("j", "j", "ArrowDown", "k"):
        page.keyboard.press(key)
    expect(page.get_by_role("link", name="Task 1:")).to_be_focused()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    cell = page.locator(".row[data-index='1'] .profile-cell").nth(1)
    expect(cell).to_be_focused()
    page.keyboard.press("Enter")
    page.wait_for_url("**/s/rollouts/rollouts/*")
