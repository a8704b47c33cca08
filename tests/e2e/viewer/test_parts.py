"""The parts that the views are made of: elements that cannot run anything, long lists, colours."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from tests.e2e.viewer.population import populate
from tests.e2e.viewer.serving import Viewer, Visit, viewing, visiting

STYLE = Path(__file__).parents[3] / "rollgym/viewer/static/style.css"
TEXT_CONTRAST = 4.5
GRAPHIC_CONTRAST = 3.0
GROUNDS = ("bg", "surface", "surface-2")
WORDS = ("text", "muted", "accent", "good", "bad", "warn", "info", "failed")
MARKS = ("fill", "fill-good", "fill-bad", "fill-failed", "fill-warn", "fill-none", "border-strong")
REFUSED: tuple[tuple[str, dict[str, str]], ...] = (
    ("a", {"href": "javascript:alert(1)"}),
    ("a", {"href": "//elsewhere.example/"}),
    ("a", {"href": "/\\elsewhere.example/"}),
    ("a", {"href": "/\t/elsewhere.example/"}),
    ("a", {"href": "https://elsewhere.example/"}),
    ("a", {"href": "data:text/html,x"}),
    ("a", {"href": "/fine", "ping": "/elsewhere"}),
    ("img", {"src": "https://elsewhere.example/x.png"}),
    ("img", {"src": "data:image/svg+xml;base64,AAAA"}),
    ("img", {"srcset": "//elsewhere.example/x.png"}),
    ("div", {"onclick": "alert(1)"}),
    ("div", {"ONCLICK": "alert(1)"}),
    ("div", {"style": "background: url(//elsewhere.example)"}),
    ("iframe", {"srcdoc": "x"}),
    ("button", {"formaction": "https://elsewhere.example/"}),
    ("script", {}),
    ("SCRIPT", {}),
    ("object", {}),
)
TALL = """async () => {
  const { VariableList } = await import("/static/virtual.js");
  const { h } = await import("/static/dom.js");
  const scroller = h("div", { style: { height: "400px", overflow: "auto" } });
  document.body.append(scroller);
  // Heights that have nothing to do with the estimate, half of them known only after a while.
  const render = (index) => {
    const height = `${20 + (index * 37) % 200}px`;
    const node = h("p", { text: `item ${index}`, style: { height } });
    return index % 2 ? node : new Promise((done) => setTimeout(() => done(node), 30));
  };
  window.list = new VariableList({ scroller, total: 5000, estimate: 60, render });
  window.scroller = scroller;
}"""
OFFSET = """(index) => {
  const node = window.list.node(index);
  return node && node.getBoundingClientRect().top - window.scroller.getBoundingClientRect().top;
}"""


@pytest.fixture(scope="module")
def viewer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Viewer]:
    path = tmp_path_factory.mktemp("parts") / "rollouts.jsonl"
    populate(path, tasks=2)
    with viewing([path]) as served:
        yield served


@pytest.fixture
def visit(browser: Browser, viewer: Viewer) -> Iterator[Visit]:
    with visiting(browser, viewer) as begun:
        yield begun


def is_refused(page: Page, tag: str, attributes: dict[str, str]) -> bool:
    return bool(
        page.evaluate(
            """async ([tag, attributes]) => {
              const { h } = await import("/static/dom.js");
              try {
                h(tag, attributes);
              } catch (error) {
                return error.name === "TypeError";
              }
              return false;
            }""",
            [tag, attributes],
        )
    )


def test_no_element_can_be_made_that_runs_or_fetches_something(visit: Visit) -> None:
    page = visit.go("/s/rollouts/")
    assert [case for case in REFUSED if not is_refused(page, *case)] == []
    assert not is_refused(page, "a", {"href": "/s/rollouts/?q=//x"})
    assert not is_refused(page, "img", {"src": "data:image/png;base64,AAAA"})


def test_markup_in_texts_stays_text(visit: Visit) -> None:
    page = visit.go("/s/rollouts/")
    made = page.evaluate(
        """async () => {
          const { h } = await import("/static/dom.js");
          return h("p", { title: "'" }, "<img src=x onerror=alert(1)>", ["<b>", 1]).outerHTML;
        }"""
    )
    assert made == '<p title="\'">&lt;img src=x onerror=alert(1)&gt;&lt;b&gt;1</p>'


def test_an_item_of_a_long_list_stays_where_it_is_while_those_above_are_measured(
    visit: Visit,
) -> None:
    page = visit.go("/s/rollouts/live")
    page.evaluate(TALL)
    page.evaluate("window.list.scrollToIndex(2500)")
    for _ in range(4):
        page.wait_for_timeout(40)
        assert abs(page.evaluate(OFFSET, 2500)) < 1.5
    assert page.locator(".virtual-item").count() < 60
    # Upwards into items that were not measured yet.
    for _ in range(15):
        before = page.evaluate("window.list.visible()[0]")
        offset = page.evaluate(OFFSET, before)
        page.evaluate("window.scroller.scrollTop -= 100")
        page.wait_for_timeout(60)
        assert abs(page.evaluate(OFFSET, before) - offset - 100) < 1.5


@pytest.mark.campaign
def test_the_last_item_of_a_long_list_can_be_reached(visit: Visit) -> None:
    page = visit.go("/s/rollouts/live")
    page.evaluate(TALL)
    page.evaluate("window.list.scrollToIndex(4999)")
    page.wait_for_timeout(150)
    bottom = page.evaluate("window.list.node(4999).getBoundingClientRect().bottom")
    assert abs(bottom - page.evaluate("window.scroller.getBoundingClientRect().bottom")) < 1.5


@pytest.mark.campaign
def test_a_list_of_millions_of_rows_can_be_scrolled_to_its_end(visit: Visit) -> None:
    page = visit.go("/s/rollouts/live")
    seen = page.evaluate(
        """async () => {
          const { FixedList } = await import("/static/fixed_list.js");
          const { h } = await import("/static/dom.js");
          const container = h("div", { style: { height: "400px", overflow: "auto" } });
          document.body.append(container);
          const list = new FixedList({
            container, rowHeight: 30, total: 3_000_000,
            render: (index) => h("div", { text: index, style: { height: "30px" } }),
          });
          list.scrollToIndex(2_999_999);
          const last = list.row(2_999_999).getBoundingClientRect();
          const end = list.visible()[1];
          list.scrollToIndex(1_234_567, { align: "start" });
          return [last.bottom - container.getBoundingClientRect().bottom, end, list.visible()[0]];
        }"""
    )
    assert abs(seen[0]) <= 30
    assert seen[1] == 3_000_000
    assert abs(seen[2] - 1_234_567) <= 1


@pytest.mark.campaign
def test_colours_keep_their_contrast() -> None:
    for theme in ["light", "dark"]:
        tokens = colours(theme)
        texts = {(word, ground): contrast(tokens[word], tokens[ground])
                 for word in WORDS for ground in (*GROUNDS, f"{word}-soft")
                 if ground in tokens}  # fmt: skip
        texts |= {("on-accent", "accent"): contrast(tokens["on-accent"], tokens["accent"])}
        assert {pair: ratio for pair, ratio in texts.items() if ratio < TEXT_CONTRAST} == {}
        marks = {mark: contrast(tokens[mark], tokens["surface"]) for mark in MARKS}
        assert {mark: ratio for mark, ratio in marks.items() if ratio < GRAPHIC_CONTRAST} == {}


def colours(theme: str) -> dict[str, str]:
    pairs = re.findall(
        r"--([\w-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\);", STYLE.read_text()
    )
    return {name: light if theme == "light" else dark for name, light, dark in pairs}


def contrast(one: str, other: str) -> float:
    """The ratio of WCAG 2."""
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: str) -> float:
    shares = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (
        share / 12.92 if share <= 0.03928 else ((share + 0.055) / 1.055) ** 2.4 for share in shares
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
