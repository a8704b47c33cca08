"""A rollout in a browser, step by step, in a real browser."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e.viewer.serving import PHONE, Viewer, Visit, overflows, viewing, visiting
from tests.e2e.viewer.shown import LONG_STEPS, RECORDED, write_web_rollouts

SOURCE = "/s/shopping-train-0"
FIRST = f"{SOURCE}/rollouts/0-1"
LONG = f"{SOURCE}/rollouts/0-3"


@pytest.fixture(scope="module")
def viewer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Viewer]:
    folder = tmp_path_factory.mktemp("web")
    with viewing([write_web_rollouts(folder)]) as running:
        yield running


@pytest.fixture
def visit(browser: Browser, viewer: Viewer) -> Iterator[Visit]:
    with visiting(browser, viewer) as started:
        yield started


def centre(page: Page, selector: str) -> tuple[float, float]:
    """Where an element's middle is, in fractions of the screenshot."""
    found: list[float] = page.evaluate(
        """(selector) => {
          const shot = document.querySelector(".shot-picture img").getBoundingClientRect();
          const box = document.querySelector(selector).getBoundingClientRect();
          return [(box.x + box.width / 2 - shot.x) / shot.width,
                  (box.y + box.height / 2 - shot.y) / shot.height];
        }""",
        selector,
    )
    return found[0], found[1]


def test_a_click_is_drawn_where_it_went(visit: Visit) -> None:
    page = visit.go(FIRST)
    expect(page.locator(".shot-picture img")).to_have_js_property("naturalWidth", 128)
    assert centre(page, ".mark-dot") == pytest.approx((640 / 1280, 192 / 768), abs=0.01)
    assert centre(page, ".mark-box .mark-line") == pytest.approx((0.5, 0.25), abs=0.01)


def test_typed_text_is_written_beside_its_place(visit: Visit) -> None:
    page = visit.go(f"{FIRST}?step=2")
    expect(page.locator(".mark-label")).to_have_text("blanket")
    assert centre(page, ".mark-dot") == pytest.approx((0.25, 0.5), abs=0.01)


def test_a_step_says_what_was_done_and_where(visit: Visit) -> None:
    page = visit.go(f"{FIRST}?step=2")
    expect(page.locator(".step-bar h2")).to_have_text("Step 2 of 4")
    expect(page.locator(".step-did")).to_contain_text('type "blanket"')
    expect(page.locator(".shot-title")).to_have_text("Shop: type")
    expect(page.locator(".shot-url")).to_have_text("http://shop.test/type")
    assert page.locator(".step a").count() == 0
    facts = page.locator(".step-facts")
    expect(facts).to_contain_text("I want to type.")
    expect(facts).to_contain_text("input tokens")
    facts.get_by_text("Raw response").click()
    expect(facts).to_contain_text('Action: type "blanket"')
    facts.get_by_text("Accessibility tree").click()
    expect(facts).to_contain_text("button 'Buy'")
    facts.get_by_text("Prompt").click()
    expect(facts).to_contain_text("What does the blanket cost?")


def test_steps_are_walked_through_with_the_keyboard(visit: Visit) -> None:
    page = visit.go(FIRST)
    heading = page.locator(".step-bar h2")
    expect(heading).to_have_text("Step 1 of 4")
    for key, number in (("ArrowRight", 2), ("j", 3), ("ArrowLeft", 2), ("End", 4), ("Home", 1)):
        page.keyboard.press(key)
        expect(heading).to_have_text(f"Step {number} of 4")
        assert visit.path == f"{FIRST}?step={number}"
        expect(page.locator(".frame[aria-current]")).to_have_attribute("data-step", str(number - 1))


def test_the_har_of_the_session_is_saved_from_a_link(visit: Visit) -> None:
    page = visit.go(FIRST)
    link = page.get_by_role("link", name="Download", exact=True)
    # Asked for here: whether Chromium then reports a download does not depend on the page.
    answer = page.request.get(link.evaluate("link => link.href"))
    named = 'attachment; filename="shopping-train-0-abababababab.har"'
    assert answer.headers["content-disposition"].startswith(named)
    assert answer.body() == RECORDED


def test_before_and_after_are_the_screenshots_around_the_action(visit: Visit) -> None:
    page = visit.go(FIRST)
    image = page.locator(".shot-picture img")
    before = image.get_attribute("src")
    page.keyboard.press("b")
    expect(page.locator(".shot-when")).to_have_text("After the action")
    after = image.get_attribute("src")
    assert after != before
    assert page.locator(".mark-dot").count() == 0
    page.get_by_role("button", name="Side by side").click()
    expect(image).to_have_count(2)
    assert [image.nth(at).get_attribute("src") for at in range(2)] == [before, after]
    page.keyboard.press("End")
    expect(page.locator(".stage-none")).to_contain_text("no screenshot after the last step")


@pytest.mark.campaign
def test_a_link_shows_the_screenshots_that_were_shown(visit: Visit) -> None:
    page = visit.go(f"{FIRST}?step=2")
    page.get_by_role("button", name="Side by side").click()
    expect(page.locator(".shot-picture img")).to_have_count(2)
    assert visit.path == f"{FIRST}?step=2&view=both"
    page.keyboard.press("ArrowRight")
    assert visit.path == f"{FIRST}?step=3&view=both"
    page.reload()
    expect(page.locator(".shot-picture img")).to_have_count(2)
    page.keyboard.press("b")
    expect(page.locator(".shot-when")).to_have_text("After the action")
    assert visit.path == f"{FIRST}?step=3&view=after"
    page.get_by_role("button", name="Before", exact=True).click()
    expect(page.locator(".shot-when")).to_have_text("Before the action")
    assert visit.path == f"{FIRST}?step=3"


@pytest.mark.campaign
def test_what_is_found_in_a_fold_is_unfolded(visit: Visit) -> None:
    page = visit.go(FIRST)
    expect(page.locator(".step-did")).to_contain_text("click on")
    page.keyboard.press("/")
    page.get_by_label("Find in this rollout").fill("button 'Buy'")
    expect(page.locator(".find-said")).to_have_text("1 of 4")
    tree = page.locator(".step-tree .plain")
    expect(tree).to_have_text("button 'Buy'")
    expect(tree).to_be_in_viewport()
    page.wait_for_function("CSS.highlights.get('found')?.size > 0")
    expect(page.locator(".step-raw")).not_to_have_attribute("open", "")


def test_the_filmstrip_leads_to_a_step(visit: Visit) -> None:
    page = visit.go(FIRST)
    page.get_by_role("button", name="Step 3, scroll").click()
    expect(page.locator(".step-did")).to_contain_text("scroll down")
    assert visit.path == f"{FIRST}?step=3"


@pytest.mark.campaign
def test_the_focus_goes_along_from_frame_to_frame_and_stays_in_the_folds(visit: Visit) -> None:
    page = visit.go(FIRST)
    frames = page.locator(".frame")
    frames.first.focus()
    page.keyboard.press("ArrowRight")
    expect(frames.nth(1)).to_be_focused()
    fold = page.locator(".step-response summary")
    fold.focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator(".step-walk h2")).to_have_text("Step 3 of 4")
    expect(fold).to_be_focused()


@pytest.mark.campaign
def test_thousands_of_steps_are_there_but_few_are_drawn(visit: Visit) -> None:
    page = visit.go(f"{LONG}?step=4000")
    expect(page.locator(".step-did")).to_contain_text("click 4000")
    current = page.locator(".frame[aria-current]")
    expect(current).to_be_in_viewport()
    expect(current.locator("img")).to_have_js_property("naturalWidth", 128)
    assert page.locator(".frame").count() < 60
    page.keyboard.press("End")
    expect(page.locator(".step-did")).to_contain_text(f"click {LONG_STEPS}")
    expect(page.locator(".step-bar h2")).to_have_text(f"Step {LONG_STEPS} of {LONG_STEPS:,}")


def test_an_action_whose_place_was_not_stored_is_not_drawn(visit: Visit) -> None:
    page = visit.go(f"{LONG}?step=7")
    expect(page.locator(".step-did")).to_contain_text("click 7")
    expect(page.locator(".step-note")).to_contain_text("Not drawn")
    assert page.locator(".mark-dot, .mark-line").count() == 0


@pytest.mark.campaign
def test_the_time_of_a_step_leads_to_it(visit: Visit) -> None:
    page = visit.go(FIRST)
    bars = page.locator(".lane-bar.is-link")
    expect(bars.first).to_be_attached()
    page.locator(".lane-bar[aria-label*='step 3']").first.focus()
    page.keyboard.press("Enter")
    expect(page.locator(".step-bar h2")).to_have_text("Step 3 of 4")


@pytest.mark.campaign
def test_a_phone_shows_the_screenshot_across(browser: Browser, viewer: Viewer) -> None:
    with visiting(browser, viewer, PHONE, "dark") as visit:
        page = visit.go(FIRST)
        shot = page.locator(".shot-picture img")
        expect(shot).to_be_attached()
        box = shot.bounding_box()
        assert box is not None
        assert box["width"] > 340
        assert not overflows(page)


def test_a_screenshot_that_is_gone_is_said_to_be(
    browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> None:
    experiment = write_web_rollouts(tmp_path_factory.mktemp("gone"))
    for picture in (experiment / "screenshots").rglob("*.png"):
        picture.unlink()
    with viewing([experiment]) as viewer, visiting(browser, viewer) as visit:
        page = visit.go(FIRST)
        expect(page.locator(".stage")).to_contain_text("Cannot show this picture")
        visit.problems.clear()  # the pictures that were not found
