"""The overview: what it says, where its bars lead, and that it stays in its place."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e.viewer.population import Counts, line, populate
from tests.e2e.viewer.serving import PHONE, Viewer, Visit, overflows, viewing, visiting

OVERVIEW = "/s/rollouts/"
LIST = "/s/rollouts/rollouts"
SHIFTS = """
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) window.shifted = (window.shifted ?? 0) + entry.value;
}).observe({ type: "layout-shift", buffered: true });
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("overview")


@pytest.fixture(scope="module")
def counts(folder: Path) -> Counts:
    return populate(folder / "rollouts.jsonl")


@pytest.fixture(scope="module")
def viewer(folder: Path, counts: Counts) -> Iterator[Viewer]:
    assert counts.rollouts
    with viewing([folder / "rollouts.jsonl"]) as served:
        yield served


@pytest.fixture
def visit(browser: Browser, viewer: Viewer) -> Iterator[Visit]:
    with visiting(browser, viewer) as begun:
        yield begun


def total(page: Page) -> int:
    """How many rollouts the list says there are, once it says so."""
    words = page.locator(".total")
    expect(words).to_have_text(re.compile(r"^[\d,]+ rollouts?$"))
    return int((words.text_content() or "").split()[0].replace(",", ""))


def counted(words: str | None) -> int:
    """The number of rollouts in the name of a bar."""
    found = re.search(r"([\d,]+) rollouts?", words or "")
    assert found, words
    return int(found[1].replace(",", ""))


def test_the_address_of_the_viewer_leads_to_the_overview_of_its_only_source(visit: Visit) -> None:
    page = visit.go("/")
    page.wait_for_url("**" + OVERVIEW)
    expect(page).to_have_title("Overview · rollouts.jsonl · rollgym")


def test_it_says_how_much_there_is_and_how_good_it_is(visit: Visit, counts: Counts) -> None:
    page = visit.go(OVERVIEW)
    numbers = page.get_by_role("region", name="Key figures")
    expect(numbers).to_contain_text(f"Rollouts{counts.rollouts}")
    expect(numbers).to_contain_text(f"completed{counts.completed}failed{counts.failed}")
    expect(numbers).to_contain_text(f"{counts.successes} of {counts.completed} judged")
    for title in ("Reward", "Success over time", "Steps", "Tool calls", "Tokens", "Duration"):
        expect(page.get_by_role("region", name=title, exact=True).locator("svg")).to_be_visible()


def test_a_bar_leads_to_the_rollouts_that_it_counts(visit: Visit) -> None:
    page = visit.go(OVERVIEW)
    for title in ("Reward", "Steps", "Tokens"):
        bar = page.get_by_role("group", name=title, exact=True).get_by_role("link").first
        expected = counted(bar.get_attribute("aria-label"))
        bar.click()
        page.wait_for_url("**" + LIST + "?*")
        assert total(page) == expected
        page.go_back()


@pytest.mark.campaign
def test_bars_can_be_reached_and_pressed_with_the_keyboard(visit: Visit) -> None:
    page = visit.go(OVERVIEW)
    bar = page.get_by_role("group", name="Reward", exact=True).get_by_role("link").last
    expected = counted(bar.get_attribute("aria-label"))
    bar.focus()
    expect(page.locator(".tip")).to_be_visible()
    page.keyboard.press("Enter")
    page.wait_for_url("**" + LIST + "?*")
    assert total(page) == expected


def test_a_kind_of_failure_leads_to_the_failures_of_that_kind(visit: Visit) -> None:
    page = visit.go(OVERVIEW)
    kind = page.get_by_role("region", name="Failures by kind").get_by_role("link").first
    expected = int((kind.locator(".ranking-value").text_content() or "0").replace(",", ""))
    kind.click()
    assert total(page) == expected
    expect(page.locator(".row .outcome.failed").first).to_be_visible()


def test_errors_are_grouped_by_cause_and_a_filter_for_one_says_what_it_is(visit: Visit) -> None:
    page = visit.go(OVERVIEW)
    causes = page.get_by_role("region", name="Failures by cause").locator("tbody tr")
    # The messages differ in a number each; the causes do not.
    expect(causes).to_have_count(2)
    expected = int(causes.first.locator("td").first.text_content() or "0")
    cause = causes.first.get_by_role("link").first
    words = cause.text_content()
    cause.click()
    assert total(page) == expected
    expect(page.locator(".chip")).to_contain_text(f"cause: {words}")
    # The address alone shows it too.
    page.reload()
    expect(page.locator(".chip")).to_contain_text(f"cause: {words}")


def test_what_is_filtered_stays_so_from_tab_to_tab(visit: Visit) -> None:
    page = visit.go(OVERVIEW + "?success=true")
    expect(page.locator(".chip")).to_have_text(re.compile("success"))
    views = page.get_by_role("navigation", name="Views")
    for name, path in (("Tasks", "tasks"), ("Rollouts", "rollouts"), ("Overview", "")):
        views.get_by_role("link", name=name).click()
        page.wait_for_url(f"**/s/rollouts/{path}?success=true")
        expect(page.locator(".chip")).to_have_text(re.compile("success"))
    page.get_by_role("button", name="Remove the filter success").click()
    page.wait_for_url("**" + OVERVIEW)


def test_a_filtered_overview_says_that_the_coverage_is_of_all(visit: Visit, counts: Counts) -> None:
    page = visit.go(OVERVIEW + "?task=3")
    numbers = page.get_by_role("region", name="Key figures")
    expect(numbers).to_contain_text(f"of {counts.rollouts} in total")
    expect(numbers).to_contain_text(f"All {counts.rollouts} rollouts, without the filter:")


def test_pass_at_k_says_on_how_many_tasks_it_rests(visit: Visit) -> None:
    page = visit.go(OVERVIEW)
    shown = visit.viewer.json("/api/s/rollouts/overview")["pass_at"]
    assert [each["k"] for each in shown] == [1, 2, 4, 6]
    panel = page.get_by_role("region", name="pass@k")
    fewer = next(each["k"] for each in shown if each["tasks"] < shown[0]["tasks"])
    expect(panel).to_contain_text(f"over {shown[0]['tasks']} tasks; from k = {fewer} over fewer")
    for each in shown:
        words = re.compile(rf"^pass@{each['k']}: .*, over {each['tasks']} tasks$")
        expect(panel.get_by_role("img", name=words)).to_be_visible()


@pytest.mark.campaign
def test_nothing_jumps_while_it_loads(visit: Visit) -> None:
    visit.page.add_init_script(SHIFTS)
    for path in (OVERVIEW, LIST, "/s/rollouts/tasks"):
        page = visit.go(path)
        page.wait_for_load_state("networkidle")
        assert page.evaluate("window.shifted ?? 0") < 0.1, path


def test_it_fits_on_a_phone(browser: Browser, viewer: Viewer) -> None:
    with visiting(browser, viewer, PHONE, "dark") as visit:
        page = visit.go(OVERVIEW)
        expect(page.locator(".chart svg").first).to_be_visible()
        assert not overflows(page)


@pytest.mark.campaign
def test_the_theme_that_was_chosen_is_kept(visit: Visit) -> None:
    page = visit.go(OVERVIEW)
    page.get_by_role("button", name="Dark theme").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    expect(page.get_by_role("button", name="Light theme")).to_be_visible()


@pytest.mark.campaign
def test_keys_scroll_it_before_anything_was_clicked(visit: Visit) -> None:
    page = visit.go(OVERVIEW)
    expect(page.locator(".chart svg").first).to_be_visible()
    page.keyboard.press("PageDown")
    expect(page.get_by_role("region", name="Key figures")).not_to_be_in_viewport()


@pytest.mark.campaign
def test_a_chart_is_one_stop_of_the_tab_key_and_arrows_go_along_its_bars(visit: Visit) -> None:
    page = visit.go(OVERVIEW)
    bars = page.get_by_role("group", name="Reward").locator("a.mark")
    bars.first.focus()
    page.keyboard.press("ArrowRight")
    expect(bars.nth(1)).to_be_focused()
    page.keyboard.press("Tab")
    expect(
        page.get_by_role("group", name="Success over time").locator("a.mark").first
    ).to_be_focused()


@pytest.mark.campaign
def test_rewards_of_any_size_are_readable(browser: Browser, tmp_path: Path) -> None:
    rewards = (-1e12, 1e12, 1e-9, 0.5)
    rows = [{"_ng_task_index": at, "reward": reward} for at, reward in enumerate(rewards)]
    (tmp_path / "huge.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with viewing([tmp_path / "huge.jsonl"]) as viewer, visiting(browser, viewer) as visit:
        page = visit.go("/s/huge/")
        expect(page.get_by_role("region", name="Key figures")).to_contain_text("from -1e12 to 1e12")
        labels = page.get_by_role("group", name="Reward").locator(".label").all()
        assert "1e12" in [label.text_content() for label in labels]
        page.goto(f"{viewer.root}/s/huge/rollouts")
        expect(page.get_by_role("gridcell", name="-1e12")).to_be_visible()


@pytest.mark.campaign
def test_rollouts_without_a_time_are_counted_among_the_judged(
    browser: Browser, tmp_path: Path
) -> None:
    rows = [
        {"_ng_task_index": index, "_ng_rollout_index": 0, "reward": reward, "response": {}}
        for index, reward in enumerate((1.0, 0.0))
    ]
    timeless = "".join(json.dumps(row) + "\n" for row in rows).encode()
    (tmp_path / "timeless.jsonl").write_bytes(timeless + line(2, 0) + line(3, 0) + line(4, 0))
    with viewing([tmp_path / "timeless.jsonl"]) as served, visiting(browser, served) as visit:
        answer = served.json("/api/s/timeless/overview")
        numbers = visit.go("/s/timeless/").get_by_role("region", name="Key figures")
        assert sum(point["judged"] for point in answer["over_time"]["points"]) < 5
        expect(numbers).to_contain_text("4 of 5 judged")
        expect(numbers).not_to_contain_text("not judged")


def test_what_deserves_a_look_leads_to_its_rollouts(browser: Browser, tmp_path: Path) -> None:
    said = {"type": "message", "role": "assistant", "content": "It is warm."}
    params = {"input": "What is the weather?", "tools": [{"type": "function", "name": "search"}]}
    row = {"responses_create_params": params, "response": {"output": [said]}, "reward": 0.0}
    (tmp_path / "rollouts.jsonl").write_text(3 * (json.dumps(row) + "\n"))
    with viewing([tmp_path / "rollouts.jsonl"]) as viewer, visiting(browser, viewer) as visit:
        page = visit.go(OVERVIEW)
        bar = page.get_by_role("list", name="Deserves a look").get_by_role("link")
        words = bar.get_attribute("aria-label")
        bar.click()
        expect(page.locator(".chips")).to_contain_text("sign: no tool call")
        assert total(page) == counted(words) == 3
        visit.go("/s/rollouts/rollouts/0-1")
        expect(page.get_by_role("region", name="Deserves a look")).to_contain_text("no tool called")
