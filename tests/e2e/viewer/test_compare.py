"""Repeats of a task side by side, and two runs joined by their tasks, in a real browser."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.e2e.viewer.serving import PHONE, Viewer, Visit, overflows, viewing, visiting
from tests.e2e.viewer.shown import write_rollouts, write_second_run, write_web_rollouts

REPEATS = "/s/ships/tasks/0"


@pytest.fixture(scope="module")
def viewer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Viewer]:
    folder = tmp_path_factory.mktemp("compared")
    paths = [write_rollouts(folder), write_second_run(folder), write_web_rollouts(folder)]
    with viewing(paths) as running:
        yield running


@pytest.fixture
def visit(browser: Browser, viewer: Viewer) -> Iterator[Visit]:
    with visiting(browser, viewer) as started:
        yield started


def test_the_first_difference_of_repeats_is_marked_and_in_view(visit: Visit) -> None:
    page = visit.go(REPEATS)
    first = page.locator(".compare-line.is-first")
    expect(first).to_be_in_viewport()
    expect(first).to_contain_text("First difference")
    expect(first).to_contain_text("turn 2")
    expect(first.locator(".compare-cell")).to_have_count(2)
    expect(first.locator("mark").first).to_contain_text("captain of the Kestrel")
    expect(page.locator(".compare-head .badge")).to_contain_text(["success", "no success"])


def test_what_repeats_did_alike_is_shown_once(visit: Visit) -> None:
    page = visit.go(REPEATS)
    result = page.locator(".compare-line", has_text="Tool result")
    expect(result).to_contain_text("same in all 2")
    expect(result.locator(".compare-cell")).to_have_count(1)
    page.locator("main").evaluate("(main) => main.scrollTo(0, main.scrollHeight)")
    last = page.locator(".compare-line", has_text="Answer: Moreau")
    expect(last).to_contain_text("Answer: Nobody")


def test_repeats_can_be_chosen_and_the_address_says_which(visit: Visit) -> None:
    page = visit.go(REPEATS)
    page.locator(".chooser").get_by_role("button", name="Repeat 1").click()
    expect(page.locator(".compare-head")).to_have_count(1)
    assert visit.path == f"{REPEATS}?show=0-1"
    page.reload()
    expect(page.locator(".compare-head")).to_have_count(1)


@pytest.mark.campaign
def test_a_turn_of_a_repeat_leads_to_its_rollout(visit: Visit) -> None:
    page = visit.go(REPEATS)
    first = page.locator(".compare-line.is-first")
    first.get_by_role("link", name="Open").nth(1).click()
    expect(page.locator(".turn.is-selected")).to_have_attribute("data-turn", "1")
    assert visit.path == "/s/ships/rollouts/0-2?turn=2"


def test_web_repeats_show_their_screenshots_and_actions(visit: Visit) -> None:
    page = visit.go("/s/shopping-train-0/tasks/0")
    first = page.locator(".compare-line.is-first")
    expect(first).to_contain_text("step 2")
    expect(first.locator(".step-did")).to_contain_text(['type "blanket"', "click on [9]"])
    expect(first.locator("img").first).to_have_js_property("naturalWidth", 128)
    ended = page.locator(".compare-cell.is-over")
    ended.scroll_into_view_if_needed()
    expect(ended).to_have_text("ended")


@pytest.mark.campaign
def test_repeats_on_a_phone_scroll_sideways_in_their_own_box(
    browser: Browser, viewer: Viewer
) -> None:
    with visiting(browser, viewer, PHONE) as visit:
        page = visit.go(REPEATS)
        expect(page.locator(".compare-line").first).to_be_attached()
        assert not overflows(page)


def test_two_runs_are_joined_by_their_tasks(visit: Visit) -> None:
    page = visit.go("/compare?left=ships&right=ships_later")
    rows = page.locator(".joined-rows .joined-row:not(.joined-heads)")
    expect(rows).to_have_count(3)
    counts = page.locator(".changes")
    for words in ("1Regressed", "1Same", "1Only right", "0Improved"):
        expect(counts).to_contain_text(words)
    worse = rows.filter(has_text="ship 0")
    expect(worse).to_contain_text("0.5")
    expect(worse.locator(".delta-words")).to_contain_text("−0.5")  # noqa: RUF001


@pytest.mark.campaign
def test_a_group_of_tasks_can_be_looked_at_alone(visit: Visit) -> None:
    page = visit.go("/compare?left=ships&right=ships_later")
    page.locator(".changes").get_by_role("button", name="Regressed").click()
    rows = page.locator(".joined-rows .joined-row:not(.joined-heads)")
    expect(rows).to_have_count(1)
    assert "change=regressed" in visit.path
    rows.get_by_role("link").first.click()
    expect(page.locator(".compare-head")).to_have_count(2)
    assert visit.path == REPEATS


@pytest.mark.campaign
def test_left_and_right_can_be_swapped(visit: Visit) -> None:
    page = visit.go("/compare?left=ships&right=ships_later")
    expect(page.locator(".changes")).to_contain_text("1Regressed")
    page.get_by_role("button", name="Swap left and right").click()
    expect(page.locator(".changes")).to_contain_text("1Improved")
