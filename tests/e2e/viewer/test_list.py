"""The list of rollouts: filters, order, columns, keyboard, and an address that says it all."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.e2e.viewer.population import Counts, line, populate
from tests.e2e.viewer.serving import PHONE, Viewer, Visit, overflows, viewing, visiting

LIST = "/s/rollouts/rollouts"
MOST_ROWS = 100
"""More than are ever in the document at once, at the sizes of these tests."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("list")


@pytest.fixture(scope="module")
def counts(folder: Path) -> Counts:
    return populate(folder / "rollouts.jsonl", tasks=200)


@pytest.fixture(scope="module")
def viewer(folder: Path, counts: Counts) -> Iterator[Viewer]:
    assert counts.rollouts
    with viewing([folder / "rollouts.jsonl"]) as served:
        yield served


@pytest.fixture
def visit(browser: Browser, viewer: Viewer) -> Iterator[Visit]:
    with visiting(browser, viewer) as begun:
        yield begun


def rows(page: Page) -> Locator:
    return page.get_by_role("row").filter(has=page.get_by_role("gridcell"))


def cells(page: Page, column: str, many: int) -> list[str]:
    """What the first rows say in a column."""
    expect(page.locator(".row-link").first).to_be_visible()
    names = page.get_by_role("columnheader").all_inner_texts()
    at = [re.sub(r"\W", "", name) for name in names].index(column)
    return [
        rows(page).nth(index).get_by_role("gridcell").nth(at).inner_text().strip()
        for index in range(many)
    ]


def say_total(page: Page, number: int) -> None:
    words = f"{number:,} rollout" + ("" if number == 1 else "s")
    expect(page.locator(".total")).to_have_text(words)


def selected(page: Page) -> Locator:
    return page.locator(".row.is-selected")


def test_all_rollouts_are_there_and_only_those_in_view_are_drawn(
    visit: Visit, counts: Counts
) -> None:
    page = visit.go(LIST)
    say_total(page, counts.rollouts)
    expect(page.get_by_role("grid")).to_have_attribute("aria-rowcount", str(counts.rollouts + 1))
    assert 10 < rows(page).count() < MOST_ROWS
    page.keyboard.press("End")
    expect(selected(page)).to_have_attribute("aria-rowindex", str(counts.rollouts + 1))
    expect(selected(page).get_by_role("link")).to_be_visible()
    assert rows(page).count() < MOST_ROWS


def test_a_click_on_a_header_sorts_and_another_turns_the_order(visit: Visit) -> None:
    page = visit.go(LIST)
    say_total(page, 1200)
    header = page.get_by_role("columnheader", name="Tokens")
    header.get_by_role("button").click()
    page.wait_for_url("**?sort=tokens&order=desc")
    expect(header).to_have_attribute("aria-sort", "descending")
    assert set(cells(page, "Tokens", 12)) == {"2.3k"}
    header.get_by_role("button").click()
    page.wait_for_url("**?sort=tokens")
    expect(header).to_have_attribute("aria-sort", "ascending")
    page.go_back()
    expect(header).to_have_attribute("aria-sort", "descending")


def test_filters_are_chips_that_can_be_taken_back(visit: Visit, counts: Counts) -> None:
    page = visit.go(LIST)
    page.get_by_role("button", name="Status").click()
    page.get_by_role("checkbox", name=re.compile("^failed")).check()
    say_total(page, counts.failed)
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Failure").click()
    page.get_by_role("checkbox", name=re.compile("^timeout")).check()
    page.wait_for_url("**?status=failed&kind=timeout")
    page.get_by_role("button", name="Remove the filter status: failed").click()
    page.wait_for_url("**?kind=timeout")
    page.go_back()
    expect(page.locator(".chip")).to_have_count(2)
    page.get_by_role("button", name="Clear all").click()
    say_total(page, counts.rollouts)


def test_ranges_and_single_numbers_filter(visit: Visit) -> None:
    page = visit.go(LIST)
    page.get_by_role("button", name="Reward").first.click()
    page.get_by_role("spinbutton", name="Reward, from").fill("0.5")
    page.keyboard.press("Tab")
    page.wait_for_url("**?min_reward=0.5")
    say_total(page, visit.viewer.json("/api" + LIST + "?min_reward=0.5&limit=1")["total"])
    page.keyboard.press("Escape")
    page.get_by_role("button", name="More").click()
    page.get_by_role("spinbutton", name="Task").fill("7")
    page.keyboard.press("Enter")
    expect(page.locator(".chips")).to_contain_text("task: 7")
    assert set(cells(page, "Task", 2)) == {"7"}


def test_a_search_finds_what_is_in_the_text_of_rollouts(visit: Visit) -> None:
    page = visit.go(LIST)
    page.keyboard.press("/")
    page.keyboard.type("Answer of task 17, repeat")
    say_total(page, visit.viewer.json("/api" + LIST + "?task=17&status=completed")["total"])
    expect(page.locator(".search-progress")).to_be_empty()
    # Letters that are shortcuts elsewhere are letters here.
    assert "j" not in visit.path
    expect(selected(page)).to_have_count(0)


def test_a_filter_that_nothing_matches_offers_a_way_back(visit: Visit, counts: Counts) -> None:
    page = visit.go(LIST + "?min_reward=7")
    expect(page.get_by_text("No matching rollouts")).to_be_visible()
    page.get_by_role("button", name="Clear filters").click()
    say_total(page, counts.rollouts)


def test_rollouts_are_walked_with_the_keyboard_and_found_again_on_the_way_back(
    visit: Visit,
) -> None:
    page = visit.go(LIST)
    expect(page.locator(".row-link").first).to_be_visible()
    page.keyboard.press("End")
    for key in ("k", "k", "ArrowUp", "j"):
        page.keyboard.press(key)
    expect(selected(page)).to_have_attribute("aria-rowindex", "1199")
    page.wait_for_url("**?sel=*")
    chosen, scrolled = visit.path.partition("sel=")[2], scroll_top(page)
    assert scrolled > 30_000
    page.keyboard.press("Enter")
    page.wait_for_url(f"**{LIST}/{chosen}")
    page.go_back()
    expect(selected(page)).to_have_attribute("aria-rowindex", "1199")
    assert abs(scroll_top(page) - scrolled) < 2


def scroll_top(page: Page) -> float:
    return float(page.get_by_role("grid").evaluate("(grid) => grid.scrollTop"))


def test_a_click_opens_a_rollout_and_the_way_back_leads_to_its_row(visit: Visit) -> None:
    page = visit.go(LIST + "?status=completed")
    row = rows(page).nth(25)
    expect(row.get_by_role("link")).to_be_visible()
    page.get_by_role("grid").evaluate("(grid) => { grid.scrollTop = 12345 }")
    expect(row).to_have_attribute("aria-rowindex", re.compile(r"^3\d\d$"))
    expect(row.get_by_role("link")).to_be_visible()
    index = row.get_attribute("aria-rowindex") or ""
    row.get_by_role("link").click()
    page.wait_for_url(re.compile(rf"{LIST}/\d+-\d+\?status=completed$"))
    page.go_back()
    expect(selected(page)).to_have_attribute("aria-rowindex", index)
    assert abs(scroll_top(page) - 12345) < 2


def test_an_address_reproduces_what_is_shown(visit: Visit, browser: Browser) -> None:
    page = visit.go(LIST + "?success=true&sort=seconds&order=desc&cols=task,title,seconds,domain")
    expect(page.locator(".row-link").first).to_be_visible()
    for _ in range(60):
        page.keyboard.press("j")
    href = selected(page).locator(".row-link").get_attribute("href") or ""
    page.wait_for_url(f"**&sel={href.partition('?')[0].rpartition('/')[2]}")
    shown = selected(page).inner_text()
    with visiting(browser, visit.viewer) as other:
        again = other.go(visit.path)
        expect(selected(again)).to_be_in_viewport()
        assert selected(again).inner_text() == shown
        headers = again.get_by_role("columnheader")
        expect(headers).to_have_text(["Task", "Title", "Duration▼", "Domain"])


def test_columns_are_the_readers_choice_and_kept(visit: Visit) -> None:
    page = visit.go(LIST)
    page.get_by_role("button", name="Columns").click()
    page.get_by_role("checkbox", name="Repeat").uncheck()
    page.get_by_role("checkbox", name="judge_score").check()
    page.keyboard.press("Escape")
    expect(page.get_by_role("columnheader", name="judge_score")).to_be_visible()
    assert "cols=outcome,task,title," in visit.path
    assert "field.judge_score" in visit.path
    page = visit.go(LIST)
    expect(page.get_by_role("columnheader", name="judge_score")).to_be_visible()
    expect(page.get_by_role("columnheader", name="Repeat")).to_have_count(0)


def test_the_filtered_rollouts_can_be_taken_away(visit: Visit) -> None:
    page = visit.go(LIST + "?task=3&status=completed")
    expect(page.locator(".row-link").first).to_be_visible()
    with page.expect_download() as download:
        page.get_by_role("link", name=re.compile("^Export")).click()
    lines = download.value.path().read_bytes().splitlines()
    assert lines
    assert {json.loads(line)["_ng_task_index"] for line in lines} == {3}


def test_what_the_server_refuses_is_said_where_it_matters_with_a_way_to_try_again(
    visit: Visit, counts: Counts
) -> None:
    page = visit.go(LIST + "?min_reward=much")
    expect(page.get_by_role("alert")).to_contain_text("min_reward")
    away = [True]
    page.route(
        "**/api/s/rollouts/rollouts?*",
        lambda route: route.abort() if away[0] else route.continue_(),
    )
    visit.go(LIST)
    expect(page.get_by_role("alert")).to_contain_text("Cannot reach the viewer's server")
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("alert")).to_contain_text("Cannot reach the viewer's server")
    away[0] = False
    # It also tries by itself, and may have been first.
    page.evaluate("document.querySelector('[role=alert] button')?.click()")
    say_total(page, counts.rollouts)
    visit.problems.clear()  # the browser tells of each answer that did not come


@pytest.mark.campaign
def test_a_question_mark_shows_the_shortcuts(visit: Visit) -> None:
    page = visit.go(LIST)
    page.keyboard.press("?")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Next rollout")
    expect(dialog).to_contain_text("Go to Overview")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    for key in ("g", "t"):
        page.keyboard.press(key)
    page.wait_for_url("**/s/rollouts/tasks")


def test_on_a_phone_rollouts_are_cards(browser: Browser, viewer: Viewer) -> None:
    with visiting(browser, viewer, PHONE) as visit:
        page = visit.go(LIST)
        expect(page.locator(".card").first).to_contain_text("Task 0")
        expect(page.locator(".card").first).to_contain_text("task 0 · repeat 0 · ")
        assert not overflows(page)
        page.locator(".card").nth(2).click()
        page.wait_for_url(re.compile(LIST + r"/\d+-\d+"))


@pytest.mark.campaign
def test_cards_can_be_sorted_too(browser: Browser, viewer: Viewer) -> None:
    with visiting(browser, viewer, PHONE) as visit:
        page = visit.go(LIST)
        page.get_by_label("Sort by").focus()
        page.get_by_label("Sort by").select_option("Steps")
        page.wait_for_url("**?sort=steps&order=desc")
        expect(page.get_by_label("Sort by")).to_be_focused()
        expect(rows(page).first).to_contain_text("5 steps")
        page.get_by_role("button", name="Largest first").click()
        page.wait_for_url("**?sort=steps")
        expect(rows(page).first).to_contain_text("1 step")
        assert not overflows(page)


@pytest.mark.campaign
def test_a_filter_can_be_taken_back_while_something_is_searched(visit: Visit) -> None:
    page = visit.go(f"{LIST}?q=Lisbon")
    expect(page.locator(".total")).to_have_text("300 rollouts")
    page.get_by_role("button", name="Success", exact=True).click()
    page.get_by_label("Success", exact=True).check()
    page.wait_for_url("**?q=Lisbon&success=true")
    page.go_back()
    page.wait_for_url("**/rollouts?q=Lisbon")


@pytest.mark.campaign
def test_a_reader_who_opens_a_rollout_while_typing_stays_there(visit: Visit) -> None:
    page = visit.go(LIST)
    link = rows(page).nth(2).get_by_role("link").first.element_handle()
    page.locator(".search").evaluate(
        """(search, link) => {
            search.value = "Lis";
            search.dispatchEvent(new InputEvent("input", { bubbles: true }));
            link.click();
        }""",
        link,
    )
    expect(page.locator(".rollout-head")).to_be_visible()
    page.wait_for_timeout(400)  # longer than the pause in which the list waits for more letters
    assert visit.path.startswith(f"{LIST}/0-3")


@pytest.mark.campaign
def test_the_focus_stays_where_it_was_when_the_list_is_drawn_again(visit: Visit) -> None:
    page = visit.go(f"{LIST}?success=true&min_reward=0.5")
    first = page.get_by_label("Remove the filter success")
    first.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_label("Remove the filter reward ≥ 0.5")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator(".search")).to_be_focused()
    sorts = page.get_by_role("columnheader", name="Steps").get_by_role("button")
    sorts.focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**?sort=steps&order=desc")
    expect(sorts).to_be_focused()
    page.get_by_role("button", name="Columns").press("Enter")
    expect(page.get_by_label("judge_score")).to_be_visible()
    expect(page.get_by_label("Outcome")).to_be_focused()


@pytest.mark.campaign
def test_columns_that_no_rollout_can_fill_are_not_shown_unless_they_are_wanted(
    browser: Browser, tmp_path: Path
) -> None:
    plain = {"responses_create_params": {"input": "Say it."}, "_ng_task_index": 0, "reward": 1.0}
    (tmp_path / "plain.jsonl").write_text(json.dumps(plain) + "\n")
    with viewing([tmp_path / "plain.jsonl"]) as viewer, visiting(browser, viewer) as visit:
        page = visit.go("/s/plain/rollouts")
        rows(page).first.wait_for()
        expect(page.get_by_role("columnheader", name="Reward")).to_be_visible()
        expect(page.get_by_role("columnheader", name="Tokens")).to_have_count(0)
        page.get_by_role("button", name="Columns").click()
        page.get_by_label("Tokens", exact=True).check()
        expect(page.get_by_role("columnheader", name="Tokens")).to_be_visible()


@pytest.mark.campaign
def test_rows_are_as_high_as_large_letters_need(visit: Visit) -> None:
    page = visit.go("/s/rollouts/")
    page.evaluate("document.documentElement.style.setProperty('font-size', '24px')")
    page.get_by_role("link", name="Rollouts", exact=True).click()
    expect(page.locator(".row-link").nth(3)).to_be_visible()
    tops = rows(page).evaluate_all("(all) => all.map((row) => row.getBoundingClientRect().top)")
    assert tops[1] - tops[0] == pytest.approx(2.125 * 24, abs=1)


def test_a_line_that_is_not_a_record_is_listed_as_that_and_not_counted_as_a_rollout(
    browser: Browser, tmp_path: Path
) -> None:
    broken = line(0, 0) + line(0, 1)[:200] + b"\n" + line(1, 0) + line(1, 1)
    (tmp_path / "broken.jsonl").write_bytes(broken)
    with viewing([tmp_path / "broken.jsonl"]) as viewer, visiting(browser, viewer) as visit:
        page = visit.go("/s/broken/rollouts")
        words = page.locator(".total")
        expect(words).to_have_text("3 rollouts, 1 unreadable line")
        row = rows(page).filter(has_text="unreadable line 2")
        (entry,) = viewer.json("/api/s/broken/rollouts?status=unreadable")["entries"]
        assert entry["detail"]
        expect(row).to_contain_text(entry["detail"])
        visit.go("/s/broken/rollouts?status=unreadable")
        expect(words).to_have_text("1 unreadable line")
        row.get_by_role("link").first.click()
        expect(page.locator(".rollout")).to_contain_text(f"problem{entry['detail']}line2byte")
        expect(page.locator(".rollout")).to_contain_text("starts with")
        expect(page.get_by_role("button", name="Raw JSON")).to_have_count(0)
        page.keyboard.press("End")
        page.locator(".back").click()
        expect(words).to_have_text("1 unreadable line")
        numbers = visit.go("/s/broken/").get_by_role("region", name="Key figures")
        expect(numbers).to_contain_text("Rollouts31 unreadable line")


def test_a_filter_that_means_nothing_is_said_to_and_can_be_removed(
    visit: Visit, counts: Counts
) -> None:
    page = visit.go(LIST + "?min_reward=abc&success=true")
    notice = page.get_by_role("alert")
    expect(notice).to_contain_text("A filter is not valid")
    expect(notice.get_by_role("button")).to_have_text("Remove this filter")
    expect(page.locator(".chip").filter(has_text="reward")).to_contain_text("“abc” (not a number)")
    notice.get_by_role("button").click()
    page.wait_for_url("**/rollouts?success=true")
    say_total(page, counts.successes)
    visit.problems.clear()  # the browser tells of the answer that was none


@pytest.mark.campaign
def test_rollouts_can_be_sorted_by_their_size(visit: Visit) -> None:
    page = visit.go(LIST + "?cols=title,bytes&sort=bytes&order=desc")
    expect(page.locator(".row-link").first).to_be_visible()
    sizes = [float(words.split()[0]) for words in cells(page, "Size", 12)]
    assert sizes == sorted(sizes, reverse=True)


@pytest.mark.campaign
def test_unreadable_lines_are_neither_exported_nor_counted_where_the_list_is_filtered(
    browser: Browser, tmp_path: Path
) -> None:
    broken = line(0, 0) + line(0, 1)[:200] + b"\n" + line(1, 0)
    (tmp_path / "broken.jsonl").write_bytes(broken)
    with viewing([tmp_path / "broken.jsonl"]) as viewer, visiting(browser, viewer) as visit:
        for query, total, exported in (
            ("", "2 rollouts, 1 unreadable line", "2 rollouts"),
            ("?status=completed&status=unreadable", "2 rollouts, 1 unreadable line", "2 rollouts"),
            ("?task=0", "1 rollout", "1 rollout"),
        ):
            page = visit.go(f"/s/broken/rollouts{query}")
            expect(page.locator(".total")).to_have_text(total)
            export = page.get_by_role("link", name=f"Export {exported} as JSONL", exact=True)
            with page.expect_download() as download:
                export.click()
            lines = download.value.path().read_bytes().splitlines()
            assert len(lines) == int(exported.split()[0])
