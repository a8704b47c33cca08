"""Texts of rollouts as the page renders them: Markdown, formulas, code, JSON; and hostile ones."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e.viewer.serving import Viewer, viewing, visiting
from tests.e2e.viewer.shown import write_second_run

LONG = 100_000
SECONDS = 8.0
"""Far more than any text may take; a renderer that is not linear takes minutes."""

RENDER = """async (source) => {
  const { markdown } = await import("/static/markdown.js");
  document.body.replaceChildren(markdown(source));
}"""
TIMED = """async (source) => {
  const { markdown } = await import("/static/markdown.js");
  const { highlight } = await import("/static/highlight.js");
  const started = performance.now();
  const node = markdown(source);
  for (const name of ["json", "python", "js", "bash", "html", "c"]) highlight(source, name);
  let depth = 0;
  for (let at = node; at; at = at.firstElementChild) depth += 1;
  return { seconds: (performance.now() - started) / 1000, depth, text: node.textContent.length };
}"""


@pytest.fixture(scope="module")
def viewer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Viewer]:
    folder: Path = tmp_path_factory.mktemp("rendering")
    with viewing([write_second_run(folder)]) as running:
        yield running


@pytest.fixture(scope="module")
def page(browser: Browser, viewer: Viewer) -> Iterator[Page]:
    """A page of the viewer, under its own Content-Security-Policy, with nothing in it yet."""
    with visiting(browser, viewer) as visit:
        visit.go("/configuration")
        visit.page.wait_for_selector("main")
        yield visit.page


def rendered(page: Page, source: str) -> Page:
    page.evaluate(RENDER, source)
    return page


def texts(page: Page, selector: str) -> list[str]:
    return page.locator(selector).all_inner_texts()


def test_blocks_of_markdown_become_elements(page: Page) -> None:
    rendered(
        page,
        "# Title #\nfirst line\nsecond line\n\n- one\n  - inner\n- two\n\n3. third\n4. fourth\n\n"
        "> quoted\n> still\n\n---\n\n    indented\n\n- [x] done",
    )
    assert texts(page, ".md-h1") == ["Title"]
    assert page.locator(".md > p br").count() == 1
    assert texts(page, "ul ul li") == ["inner"]
    assert page.locator("ol").get_attribute("start") == "3"
    assert texts(page, "blockquote p") == ["quoted\nstill"]
    assert page.locator("hr").count() == 1
    assert texts(page, "pre code") == ["indented"]
    assert texts(page, ".md-task-item") == ["☑ done"]


def test_words_are_set_off(page: Page) -> None:
    for source, selector, expected in [
        ("**bold** and __more__", "strong", ["bold", "more"]),
        ("*one* and _two_ not snake_case_name", "em", ["one", "two"]),
        ("***both***", "strong em", ["both"]),
        ("~~gone~~", "del", ["gone"]),
        ("``a ` b`` and `c`", "code", ["a ` b", "c"]),
        ("2*3*4 and **open", "em, strong", []),
        (r"\*literal\*", "em", []),
        ("a **b *c* d** e", "strong", ["b c d"]),
    ]:
        assert texts(rendered(page, source), selector) == expected


def test_a_table_keeps_its_columns(page: Page) -> None:
    rendered(page, "| name | value |\n|:--|--:|\n| a \\| b | `1` |\n| c |")
    assert texts(page, "th") == ["name", "value"]
    assert texts(page, "td") == ["a | b", "1", "c"]
    assert page.locator("td.md-right").count() == 1


def test_links_and_pictures_are_words_that_lead_nowhere(page: Page) -> None:
    rendered(
        page,
        "[words](https://elsewhere.test/a) ![alt](https://elsewhere.test/b.png) "
        "<https://elsewhere.test/c> [x](javascript:alert(1)) [r]: javascript:alert(2)",
    )
    assert page.locator("a, img").count() == 0
    text = page.locator(".md").inner_text()
    assert "words (https://elsewhere.test/a)" in text
    assert "alt (https://elsewhere.test/b.png)" in text


def test_html_is_shown_as_it_is_written(page: Page) -> None:
    source = "<b onclick=alert(1)>x</b><script>alert(2)</script>&lt;i&gt;"
    rendered(page, source)
    assert page.locator(".md").inner_text() == source
    assert page.locator(".md b, .md script").count() == 0


def test_formulas_are_reported_from_money(page: Page) -> None:
    for source, selector, expected in [
        ("It costs $5 and $10, or US$3/$4.", "math", []),
        ("$HOME:$PATH and $5-$10", "math", []),
        ("so $x^2$ holds", "math msup", ["x\n2"]),
        (r"so \(\frac{a}{b}\) holds", "math mfrac", ["a\nb"]),
        ("$$\n\\sqrt[3]{x}\n$$", "math[display=block] mroot", ["x\n3"]),
        (r"$\alpha \leq \mathbb{R}$", "math", None),
        (r"$\unknown{x}$", "mtext.math-unknown", [r"\unknown"]),
        (r"$\frac{a}{$", "math", []),
        (r"\begin{align} a &= b \\ c &= d \end{align}", "math mtr", None),
        (r"$\begin{constructor} x \end{constructor}$", "math", []),
    ]:
        found = page.locator(selector)
        rendered(page, source)
        if expected is None:
            assert found.count() > 0
        else:
            assert [text.replace("\n\n", "\n") for text in map(_stacked, found.all())] == expected


def _stacked(element: Any) -> str:
    """The texts of an element's leaves, one in a line: how they stand depends on fonts."""
    leaves: list[str] = element.evaluate(
        "(e) => [...(e.children.length ? e.querySelectorAll(':not(:has(*))') : [e])]"
        ".map((leaf) => leaf.textContent)"
    )
    return "\n".join(leaves)


def test_a_formula_that_is_not_understood_stays_as_its_source(page: Page) -> None:
    rendered(page, r"before \(\left( x \) after")
    assert texts(page, "code.math-source") == [r"\(\left( x \)"]


def test_code_is_coloured_and_stays_the_same(page: Page) -> None:
    for language, code, token, expected in [
        ("python", "def f():  # why\n    return 'x'", "keyword", ["def", "return"]),
        ("python", '"""open', "string", ['"""open']),
        ("js", "const a = `b${c}`; // d", "comment", ["// d"]),
        ("json", '{"a": [1, true]}', "key", ['"a"']),
        ("bash", 'echo "$HOME" # x', "comment", ["# x"]),
        ("html", '<a href="x">y</a>', "keyword", ["<a", ">", "</a", ">"]),
        ("constructor", "if (x) {}", "keyword", ["if"]),
        ("text", "if (x) {}", "keyword", []),
    ]:
        rendered(page, f"```{language}\n{code}\n```")
        assert page.locator("pre code").text_content() == code
        assert page.locator(f".tok-{token}").all_text_contents() == expected


HOSTILE = {
    "brackets": "[" * LONG,
    "links": "[a](" * (LONG // 4),
    "stars": "*a " * (LONG // 3),
    "nested": "**a *b " * (LONG // 14) + "* **" * (LONG // 14),
    "backticks": "".join("`" * length + " " for length in range(1, 440)),
    "dollars": "$a " * (LONG // 3),
    "formulas": "\\(" * (LONG // 2),
    "displays": "\\[\n" * (LONG // 3) + "\\] and more words",
    "environments": "\\begin{align}\n" * (LONG // 14),
    "fractions": "$" + "\\frac{" * 600 + "$",
    "quotes": "> " * (LONG // 2),
    "lists": "- " * (LONG // 2),
    "items": "\n".join(" " * (depth % 40) + "- x" for depth in range(4_000)),
    "fences": "```\n~~~\n" * (LONG // 8),
    "tables": "|" * 500 + "\n" + "|-" * 500 + "|\n" + "|\n" * 20_000,
    "dashes": "- " * (LONG // 2 - 1) + "x",
    "spaces": " " * (LONG - 1) + "x",
    "quotation": '"' * LONG,
    "escapes": "\\" * LONG,
    "comments": "<!--" * (LONG // 4),
    "underscores": "_" * LONG,
}


def test_hostile_texts_are_rendered_in_time_and_not_deeply(page: Page) -> None:
    for name in HOSTILE:
        done = page.evaluate(TIMED, HOSTILE[name][:LONG])
        assert done["seconds"] < SECONDS
        assert done["depth"] < 200


def test_a_text_beyond_the_limit_is_shown_as_it_is(page: Page) -> None:
    rendered(page, "**bold** " * 20_000)
    assert page.locator("strong").count() == 0
    assert page.locator(".plain").count() == 1


def test_json_unfolds_when_asked(page: Page) -> None:
    page.evaluate(
        """async () => {
          const { jsonTree, parseJson } = await import("/static/json.js");
          const many = Array.from({ length: 250 }, (_, index) => index);
          const text = JSON.stringify({ many, name: "x" }).replace('"x"', "12345678901234567890");
          document.body.replaceChildren(jsonTree(parseJson(text)));
        }"""
    )
    assert page.get_by_text("12345678901234567890").count() == 1
    assert page.locator(".json-leaf").count() == 1
    page.locator("summary", has_text="250 items").focus()
    page.keyboard.press("Enter")
    expect(page.locator(".json-leaf")).to_have_count(101)
    page.get_by_role("button", name="Show 100 more").click()
    page.get_by_role("button", name="Show the other 50").click()
    assert page.locator(".json-leaf").count() == 251


def test_json_of_any_depth_is_shown(page: Page) -> None:
    leaves = page.evaluate(
        """async () => {
          const { jsonTree, parseJson } = await import("/static/json.js");
          const tree = jsonTree(parseJson("[".repeat(20_000) + "]".repeat(20_000)));
          return tree.querySelectorAll("details").length;
        }"""
    )
    assert leaves == 3


@pytest.mark.parametrize(
    "props",
    [
        {"onclick": "alert(1)"},
        {"href": "https://elsewhere.test/"},
        {"href": "javascript:alert(1)"},
        {"src": "//elsewhere.test/x"},
        {"style": "color: red"},
        {"srcdoc": "<b>"},
    ],
    ids=lambda props: "-".join([*props, *props.values()])[:24],
)
def test_elements_refuse_what_could_run_or_lead_outside(page: Page, props: dict[str, str]) -> None:
    refused = page.evaluate(
        """async (props) => {
          const { h } = await import("/static/dom.js");
          try { h("a", props); } catch (error) { return error.name; }
          return null;
        }""",
        props,
    )
    assert refused == "TypeError"
