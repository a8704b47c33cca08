"""The page of one rollout, in a real browser."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.e2e.viewer.serving import PHONE, Viewer, Visit, overflows, viewing, visiting
from tests.e2e.viewer.shown import (
    LONG_TEXT,
    LONG_TURNS,
    REASONING,
    write_failed_run,
    write_rollouts,
)

FIRST = "/s/ships/rollouts/0-1"
LONG = "/s/ships/rollouts/0-3"


@pytest.fixture(scope="module")
def viewer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Viewer]:
    folder = tmp_path_factory.mktemp("rollouts")
    with viewing([write_rollouts(folder), write_failed_run(folder)]) as running:
        yield running


@pytest.fixture
def visit(browser: Browser, viewer: Viewer) -> Iterator[Visit]:
    with visiting(browser, viewer) as started:
        yield started


def turn(page: Page, number: int) -> str:
    return f"article[data-turn='{number - 1}']"


def test_the_head_says_what_the_rollout_came_to(visit: Visit) -> None:
    page = visit.go(FIRST)
    expect(page.locator("h1")).to_have_text("Who is the captain of ship 0?")
    expect(page.locator(".rollout-outcome .badge")).to_contain_text("1success")
    facts = page.locator(".facts")
    for words in ("task0", "repeat0", "312 in / 45 out", "duration2.5"):
        expect(facts).to_contain_text(words)
    expect(page.locator(".walk")).to_contain_text("1 of 3")
    expect(page).to_have_title(re.compile("Who is the captain of ship 0"))


def test_every_kind_of_turn_is_shown_for_what_it_is(visit: Visit) -> None:
    page = visit.go(FIRST)
    said = page.locator(turn(page, 1))
    expect(said.locator("strong")).to_have_text("twice")
    expect(said.locator("math")).to_have_count(1)
    expect(said.locator(".tok-keyword").first).to_have_text("def")
    expect(said.locator("td")).to_have_text(["a", "1"])
    called = page.locator(turn(page, 2))
    expect(called.locator(".call-name")).to_have_text("search")
    expect(called.locator(".json")).to_contain_text('"query": "captain of the Kestrel"')
    result = page.locator(turn(page, 3))
    expect(result.locator(".turn-role")).to_have_text("Tool result")
    expect(result.locator(".tool-name")).to_have_text("search")
    expect(result.locator(".json")).to_contain_text("Moreau")
    portrait = page.locator(f"{turn(page, 4)} img")
    portrait.scroll_into_view_if_needed()
    expect(portrait).to_have_js_property("naturalWidth", 128)


def test_reasoning_is_folded_until_it_is_wanted(visit: Visit) -> None:
    page = visit.go(f"{FIRST}?turn=1")
    body = page.locator(".reasoning .fold-body")
    expect(page.locator(".reasoning summary")).to_contain_text("Reasoning")
    expect(body).to_be_hidden()
    page.keyboard.press("o")
    expect(body).to_have_text(REASONING)


@pytest.mark.campaign
def test_a_text_can_be_seen_as_it_was_written(visit: Visit) -> None:
    page = visit.go(FIRST)
    said = page.locator(turn(page, 1))
    said.get_by_role("button", name="As text").click()
    expect(said.locator(".plain")).to_contain_text("Search **twice**")
    said.get_by_role("button", name="As text").click()
    expect(said.locator("strong")).to_have_text("twice")


def test_a_long_text_is_cut_until_all_of_it_is_asked_for(visit: Visit) -> None:
    page = visit.go(f"{FIRST}?turn=5")
    long = page.locator(turn(page, 5))
    expect(long).to_contain_text("line 0 of")
    expect(long).not_to_contain_text("line 1999 of")
    long.get_by_role("button", name=f"Show all {len(LONG_TEXT):,} characters").click()
    expect(long).to_contain_text("line 1999 of")


def test_the_raw_json_of_a_turn_and_of_the_rollout_can_be_read(visit: Visit) -> None:
    page = visit.go(f"{FIRST}?turn=3")
    page.locator(f"{turn(page, 3)}.is-selected").wait_for()
    page.keyboard.press("r")
    expect(page.locator(f"{turn(page, 3)} .turn-raw")).to_contain_text('"tool_call_id": "call_1"')
    page.get_by_role("button", name="Raw JSON").click()
    expect(page.locator(".rollout-raw")).to_contain_text('"_ng_task_index": 0')


def test_a_call_and_its_result_lead_to_each_other(visit: Visit) -> None:
    page = visit.go(FIRST)
    page.locator(turn(page, 2)).get_by_role("button", name="↓ result").click()
    expect(page.locator(f"{turn(page, 3)}.is-selected")).to_be_visible()
    assert visit.path == f"{FIRST}?turn=3"
    page.locator(turn(page, 3)).get_by_role("button", name="↑ call").click()
    expect(page.locator(f"{turn(page, 2)}.is-selected")).to_be_visible()


def test_turns_are_walked_through_with_the_keyboard(visit: Visit) -> None:
    page = visit.go(f"{FIRST}?turn=1")
    page.locator(f"{turn(page, 1)}.is-selected").wait_for()
    page.keyboard.press("j")
    page.keyboard.press("j")
    expect(page.locator(".turn.is-selected")).to_have_attribute("data-turn", "2")
    page.keyboard.press("k")
    expect(page.locator(".turn.is-selected")).to_have_attribute("data-turn", "1")
    assert visit.path == f"{FIRST}?turn=2"


def test_thousands_of_turns_are_there_but_few_are_drawn(visit: Visit) -> None:
    page = visit.go(f"{LONG}?turn=4321")
    wanted = page.locator(turn(page, 4321))
    expect(wanted).to_contain_text("This is turn 4321.")
    expect(wanted).to_be_in_viewport()
    assert page.locator("article.turn").count() < 100
    page.keyboard.press("j")
    expect(page.locator(turn(page, 4322))).to_be_in_viewport()
    page.locator("main").evaluate("(main) => main.scrollTo(0, main.scrollHeight)")
    expect(page.locator(turn(page, LONG_TURNS))).to_be_in_viewport()


@pytest.mark.campaign
def test_a_turn_stays_where_it_is_while_those_above_are_drawn(visit: Visit) -> None:
    page = visit.go(f"{LONG}?turn=2000")
    wanted = page.locator(turn(page, 2000))
    expect(wanted).to_be_in_viewport()
    places = page.evaluate(
        """async (selector) => {
          const places = [];
          for (let frame = 0; frame < 20; frame += 1) {
            await new Promise(requestAnimationFrame);
            places.push(Math.round(document.querySelector(selector).getBoundingClientRect().top));
          }
          return places;
        }""",
        turn(page, 2000),
    )
    assert max(places) - min(places) <= 1


def test_a_text_is_found_wherever_it_is(visit: Visit) -> None:
    page = visit.go(LONG)
    page.locator("article.turn").first.wait_for()
    page.keyboard.press("/")
    page.get_by_label("Find in this rollout").fill("turn 299")
    said = page.locator(".find-said")
    expect(said).to_have_text("1 of 11")
    expect(page.locator(turn(page, 299))).to_be_in_viewport()
    page.keyboard.press("Enter")
    expect(said).to_have_text("2 of 11")
    expect(page.locator(turn(page, 2990))).to_be_in_viewport()
    page.keyboard.press("Escape")
    expect(said).to_be_hidden()
    assert page.evaluate("document.activeElement.tagName") != "BODY"


def test_neighbours_are_those_of_the_list_it_came_from(visit: Visit) -> None:
    page = visit.go(f"{FIRST}?success=true")
    expect(page.locator(".walk")).to_contain_text("1 of 2")
    page.keyboard.press("]")
    expect(page.locator("h1")).to_have_text("Who is the captain of ship 1?")
    assert visit.path == "/s/ships/rollouts/0-3?success=true"
    expect(page.locator(".walk")).to_contain_text("2 of 2")
    page.keyboard.press("[")
    expect(page.locator("h1")).to_have_text("Who is the captain of ship 0?")
    page.get_by_role("link", name="Rollouts").first.click()
    assert visit.path == "/s/ships/rollouts?success=true"


@pytest.mark.campaign
def test_rollouts_can_be_leafed_through_faster_than_they_come(visit: Visit) -> None:
    page = visit.go(FIRST)
    expect(page.locator(".walk")).to_contain_text("1 of 3")

    def late(route: Route) -> None:
        page.wait_for_timeout(150)
        route.continue_()

    page.route("**/neighbours*", late)
    page.keyboard.press("]")
    page.wait_for_url("**/0-2")
    page.wait_for_selector(".rollout")
    page.keyboard.press("]")
    page.wait_for_url("**/0-3")


@pytest.mark.campaign
def test_a_reader_who_goes_beyond_the_last_rollout_before_it_is_known_sees_where_they_are(
    visit: Visit,
) -> None:
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    visit.page.route("**/api/**/neighbours", hold)
    with visit.page.expect_request("**/api/**/neighbours"):
        page = visit.go("/s/ships/rollouts/0-3")
    expect(page.locator("h1")).to_have_text("Who is the captain of ship 1?")
    page.keyboard.press("]")
    for route in held:
        route.continue_()
    expect(page.locator(".walk")).to_contain_text("3 of 3")
    assert visit.path == "/s/ships/rollouts/0-3"


@pytest.mark.campaign
def test_neighbours_are_of_the_filter_that_was_asked_for_last(visit: Visit) -> None:
    visit.page.route("**/api/**/neighbours", lambda _: None)  # the first is never answered
    with visit.page.expect_request("**/api/**/neighbours") as first:
        page = visit.go(FIRST)
    with page.expect_event("requestfailed", lambda request: request == first.value):
        page.evaluate(
            """async (path) => {
              const { navigate } = await import("/static/router.js");
              navigate(path);
            }""",
            f"{FIRST}?success=true",
        )
    expect(page.locator(".walk")).to_contain_text("1 of 2")


@pytest.mark.campaign
def test_other_repeats_are_cells_that_lead_to_them(visit: Visit) -> None:
    page = visit.go(FIRST)
    expect(page.locator(".repeat-cell")).to_have_count(2)
    page.get_by_role("link", name="Repeat 1: no success, reward 0").click()
    expect(page.locator(".rollout-outcome .badge")).to_contain_text("no success")
    assert visit.path == "/s/ships/rollouts/0-2"


def test_sampling_and_times_are_beside_it(visit: Visit) -> None:
    page = visit.go(FIRST)
    expect(page.locator(".rollout-side")).to_contain_text("temperature")
    expect(page.locator(".timeline")).to_contain_text("model")
    expect(page.locator(".timeline")).to_contain_text("Only the total of each phase is known")


@pytest.mark.campaign
def test_bars_show_when_calls_were_where_that_is_known(visit: Visit) -> None:
    page = visit.go("/s/ships/rollouts/0-2")
    bars = page.locator(".lane-bar")
    expect(bars).to_have_count(3)
    expect(page.locator(".lane")).to_contain_text(["model", "tools", "0"])
    searched = page.locator(".lane-bar[aria-label*='search']")
    expect(searched).to_have_attribute(
        "aria-label", re.compile(r"^tools · search · turn 2 · .+, starting at 1.s$")
    )
    assert float(searched.get_attribute("x") or 0) == pytest.approx(1000 / 3, abs=1)


def test_bars_lead_to_the_turns_of_their_calls(visit: Visit) -> None:
    page = visit.go("/s/ships/rollouts/0-2")
    chosen = page.locator("article.is-selected")
    page.locator(".lane-bar[aria-label*='search']").click()
    expect(chosen).to_have_attribute("data-turn", "1")
    expect(chosen).to_be_in_viewport()
    expect(chosen).to_be_focused()
    assert visit.path.endswith("?turn=2")
    first, second = page.locator(".lane-bar[aria-label^='model']").all()
    first.focus()
    page.keyboard.press("ArrowRight")
    expect(second).to_be_focused()
    page.keyboard.press("Enter")
    expect(chosen).to_have_attribute("data-turn", "4")
    expect(chosen).to_be_in_viewport()


def test_a_failure_says_what_broke_and_what_was_tried(visit: Visit) -> None:
    page = visit.go("/s/failing/rollouts/0-2")
    box = page.locator(".failure-box")
    expect(box).to_contain_text("model_rate_limit")
    expect(box).to_contain_text("HTTP 429 Too Many Requests")
    expect(box).to_contain_text("ConnectionResetError reset by peer")
    expect(box.get_by_text("Traceback (most")).to_be_hidden()
    box.get_by_text("Traceback", exact=True).click()
    expect(box.get_by_text("Traceback (most")).to_be_visible()
    attempts = page.locator(".attempts tbody tr")
    expect(attempts).to_have_count(2)
    expect(attempts.nth(0)).to_contain_text("the tool closed the connection")
    expect(box).to_contain_text("It can be retried.")
    attempts.nth(0).get_by_role("link").click()
    expect(page.locator(".failure-box")).to_contain_text("the tool closed the connection")
    expect(page.locator(".failure-box")).to_contain_text("It was retried.")
    expect(page.locator(".repeat-cell")).to_have_count(0)


@pytest.mark.campaign
def test_a_picture_is_shown_larger_when_it_is_clicked(visit: Visit) -> None:
    page = visit.go(f"{FIRST}?turn=4")
    page.locator(f"{turn(page, 4)} .picture-button").click()
    expect(page.locator("dialog.larger img")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("dialog.larger")).to_have_count(0)


@pytest.mark.campaign
def test_what_is_copied_is_whole(browser: Browser, viewer: Viewer) -> None:
    with visiting(browser, viewer) as visit:
        visit.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        page = visit.go(f"{FIRST}?turn=5")
        long = page.locator(turn(page, 5))
        long.get_by_role("button", name="Copy").click()
        expect(long.get_by_text("Copied")).to_be_visible()
        assert page.evaluate("navigator.clipboard.readText()") == LONG_TEXT
        long.get_by_role("button", name="Link").click()
        page.wait_for_function(
            "async () => (await navigator.clipboard.readText()).includes('turn=5')"
        )


@pytest.mark.campaign
def test_nothing_moves_when_a_button_says_that_it_copied(browser: Browser, viewer: Viewer) -> None:
    with visiting(browser, viewer) as visit:
        visit.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        page = visit.go(FIRST)
        tools = page.locator(".tools-row")
        neighbours = [tools.get_by_role("button", name="Find"), tools.get_by_text("Raw JSON")]
        places = [neighbour.bounding_box() for neighbour in neighbours]
        tools.get_by_role("button", name="Copy link").click()
        expect(tools.get_by_text("Copied")).to_be_visible()
        assert [neighbour.bounding_box() for neighbour in neighbours] == places


def test_a_rollout_that_is_not_there_is_said_to_be_missing(
    browser: Browser, viewer: Viewer
) -> None:
    with visiting(browser, viewer) as visit:
        page = visit.go("/s/ships/rollouts/0-99")
        expect(page.get_by_role("alert")).to_contain_text("There is no rollout")
        # That the server answered 404 is a line on the console.
        visit.problems.clear()


@pytest.mark.campaign
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_phone_has_all_of_it_in_one_column(browser: Browser, viewer: Viewer, theme: str) -> None:
    with visiting(browser, viewer, PHONE, "dark" if theme == "dark" else "light") as visit:
        page = visit.go(FIRST)
        expect(page.locator(turn(page, 1))).to_be_attached()
        assert not overflows(page)
        side, main = page.locator(".rollout-side"), page.locator(".rollout-main")
        tops = [part.evaluate("(e) => e.getBoundingClientRect().top") for part in (main, side)]
        assert tops == sorted(tops)


def test_a_rollout_can_be_taken_away(visit: Visit) -> None:
    page = visit.go(FIRST)
    with page.expect_download() as download:
        page.get_by_role("link", name="Download page").click()
    assert "Search" in download.value.path().read_text()
    assert visit.path == FIRST


@pytest.mark.campaign
def test_shortcuts_are_listed(visit: Visit) -> None:
    page = visit.go(FIRST)
    page.locator("article.turn").first.wait_for()
    page.keyboard.press("?")
    expect(page.locator("dialog.help")).to_contain_text("Find in this rollout")
