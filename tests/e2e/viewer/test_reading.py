"""Reading one rollout: first what it came to; any turn is a key away; what was sought is shown."""

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e.viewer.serving import PHONE, Viewer, Visit, overflows, viewing, visiting
from tests.e2e.viewer.shown import (
    LONG_TURNS,
    REASONING,
    Json,
    row,
    said,
    write_failed_run,
    write_rollouts,
)

FIRST = "/s/ships/rollouts/0-1"
LONG = "/s/ships/rollouts/0-3"
JUDGED = "/s/judged/rollouts/0-1"
REASON = "The name is wrong, and so is the ship. " * 40
RESTED = """() => {
  const main = document.querySelector("main");
  window.rested = new Promise((done) => main.addEventListener("scrollend", done, { once: true }));
}"""

FOUND_IN_VIEW = """() => {
  const [range] = CSS.highlights.get("found") ?? [];
  const top = range?.getBoundingClientRect().top ?? -1;
  return top > 0 && top < innerHeight;
}"""


@pytest.fixture(scope="module")
def viewer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Viewer]:
    folder = tmp_path_factory.mktemp("reading")
    with viewing([write_rollouts(folder), write_failed_run(folder), write_judged(folder)]) as open_:
        yield open_


@pytest.fixture
def visit(browser: Browser, viewer: Viewer) -> Iterator[Visit]:
    with visiting(browser, viewer) as started:
        yield started


def write_judged(folder: Path) -> Path:
    """A long verdict, and a timeline of which only the first calls were kept."""
    spans = [{"phase": "model", "start": float(at), "seconds": 0.5} for at in range(3)]
    timed: Json = {"seconds": 90.0, "spans": spans, "timings": {"model": 45.0}}
    more: Json = {f"fact_{number}": number for number in range(20)}
    told = {"verdict": REASON, "found": {"names": ["Moreau"] * 20}, **more}
    turns = [said(f"This is turn {number + 1}.") for number in range(400)]
    path = folder / "judged.jsonl"
    path.write_bytes(msgspec.json.encode(row(0, 0, turns, 0.0, metadata=timed, **told)) + b"\n")
    return path


def turn(number: int) -> str:
    return f"article[data-turn='{number - 1}']"


def rest(page: Page, key: str) -> float:
    """Presses a key that scrolls; how far down it is when nothing moves any more."""
    page.evaluate(RESTED)
    page.keyboard.press(key)
    page.evaluate("window.rested")
    return float(page.locator("main").evaluate("(main) => main.scrollTop"))


@pytest.mark.campaign
def test_the_ends_of_a_long_transcript_are_a_key_away(visit: Visit) -> None:
    page = visit.go(LONG)
    first, last = page.locator(turn(1)), page.locator(turn(LONG_TURNS))
    expect(first).to_be_attached()
    page.keyboard.press("End")
    expect(last).to_be_in_viewport()
    page.keyboard.press("Home")
    page.keyboard.press("Home")
    expect(page.locator("h1")).to_be_in_viewport()
    expect(first).to_be_attached()
    page.keyboard.press("End")
    page.keyboard.press("End")
    expect(last).to_be_in_viewport()
    expect(last).to_contain_text(f"This is turn {LONG_TURNS}.")


@pytest.mark.campaign
def test_a_page_down_is_a_screen_and_a_page_up_takes_it_back(visit: Visit) -> None:
    page = visit.go(LONG)
    expect(page.locator(turn(1))).to_be_attached()
    height = page.locator("main").evaluate("(main) => main.clientHeight")
    places = [rest(page, "PageDown") for _ in range(4)]
    for before, after in zip([0.0, *places], places, strict=False):
        assert 0.8 * height < after - before < height
    assert rest(page, "PageUp") == pytest.approx(places[-2], abs=2)


@pytest.mark.parametrize("size", [(1280, 800), PHONE])
def test_the_verdict_is_above_what_was_done(
    browser: Browser, viewer: Viewer, size: tuple[int, int]
) -> None:
    with visiting(browser, viewer, size) as visit:
        page = visit.go(JUDGED)
        verdict = page.get_by_role("region", name="Verdict")
        expect(verdict.locator("dt", has_text="verdict")).to_be_in_viewport()
        expect(verdict).to_contain_text("The name is wrong")
        box = verdict.bounding_box()
        assert box is not None
        assert box["height"] < 500
        assert not overflows(page)
        expect(page.locator(".rollout-side")).not_to_contain_text("The name is wrong")
        verdict.get_by_role("button", name=re.compile("Show all .* characters")).click()
        expect(verdict).to_contain_text(REASON.strip())
        verdict.get_by_text(re.compile(r"^\d+ more$")).click()
        expect(verdict).to_contain_text("fact 19")


@pytest.mark.campaign
def test_calls_that_were_not_kept_are_said_to_be_left_out(visit: Visit) -> None:
    page = visit.go(JUDGED)
    words = "The first 3 calls; the times of later calls were not recorded."
    expect(page.locator(".timeline")).to_contain_text(words)
    visit.go("/s/ships/rollouts/0-2")
    expect(page.locator(".timeline .lane").first).to_be_visible()
    expect(page.locator(".timeline")).not_to_contain_text("were not kept")


@pytest.mark.campaign
def test_a_failure_before_the_first_turn_says_that_nothing_was_recorded(visit: Visit) -> None:
    page = visit.go("/s/failing/rollouts/0-2")
    transcript = page.get_by_role("region", name="Transcript")
    expect(transcript).to_contain_text(re.compile("Nothing (more )?was recorded before it failed."))
    expect(transcript).not_to_contain_text("0 turns")


@pytest.mark.campaign
def test_attempts_fit_a_phone_without_breaking_words(browser: Browser, viewer: Viewer) -> None:
    with visiting(browser, viewer, PHONE) as visit:
        page = visit.go("/s/failing/rollouts/0-2")
        detail = page.locator(".attempt-detail").first
        expect(detail).to_have_text("the tool closed the connection")
        box = detail.bounding_box()
        assert box is not None
        assert box["height"] < 30
        assert not overflows(page)


def test_what_the_list_was_searched_for_is_shown(visit: Visit) -> None:
    page = visit.go("/s/ships/rollouts?q=turn%202990")
    page.locator(".row:not(.head) a").first.click()
    expect(page.get_by_label("Find in this rollout")).to_have_value("turn 2990")
    expect(page.locator(".find-said")).to_have_text("1 of 1")
    expect(page.locator(turn(2990))).to_be_in_viewport()
    page.wait_for_function("CSS.highlights.get('found')?.size === 1")
    assert page.evaluate("document.activeElement.tagName") != "INPUT"


@pytest.mark.campaign
def test_a_search_does_not_lead_away_from_the_turn_of_a_link(visit: Visit) -> None:
    page = visit.go(f"{LONG}?q=turn%202990&turn=7")
    expect(page.locator(".find-said")).to_have_text("1 match")
    expect(page.locator(turn(7))).to_be_in_viewport()
    page.get_by_role("button", name="Next match").click()
    expect(page.locator(turn(2990))).to_be_in_viewport()


def test_what_is_found_in_the_reasoning_is_unfolded(visit: Visit) -> None:
    page = visit.go(f"{FIRST}?q=look+for+the+ship")
    reasoning = page.locator(".reasoning .fold-body")
    expect(reasoning).to_have_text(REASONING)
    expect(reasoning).to_be_in_viewport()


def test_what_is_found_in_a_text_that_was_cut_is_fetched(visit: Visit) -> None:
    page = visit.go(f"{FIRST}?q=line+1987+of")
    expect(page.locator(turn(5))).to_contain_text("line 1987 of")
    page.wait_for_function(FOUND_IN_VIEW)


@pytest.mark.campaign
def test_the_page_itself_has_no_ring_when_it_has_the_focus(visit: Visit) -> None:
    page = visit.go(FIRST)
    expect(page.locator(turn(1))).to_be_attached()
    rest(page, "PageDown")
    main = page.locator("main")
    expect(main).to_be_focused()
    assert main.evaluate("(main) => getComputedStyle(main).outlineStyle") == "none"


@pytest.mark.campaign
def test_what_is_found_far_behind_in_a_plain_text_is_shown(
    browser: Browser, tmp_path: Path
) -> None:
    long = "a line that says nothing at all\n" * 20_000 + "the anchor is here\n"
    (tmp_path / "far.jsonl").write_bytes(msgspec.json.encode(row(0, 0, [said(long)])) + b"\n")
    with viewing([tmp_path / "far.jsonl"]) as served, visiting(browser, served) as visit:
        page = visit.go("/s/far/rollouts/0-1?q=anchor+is")
        expect(page.locator(".plain-portion").last).to_contain_text("the anchor is here")
        page.wait_for_function(FOUND_IN_VIEW)
