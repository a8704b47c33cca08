from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollgym.viewer.offline.markup import (
    Child,
    Fraction,
    HtmlElement,
    document,
    element,
    group,
    shape,
    stylesheet,
)
from tests.integration.viewer.rollouts import HOSTILE, Page

PNG = "data:image/png;base64,AAAA"


def written(root: HtmlElement) -> bytes:
    return b"".join(document(root))


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\0")))
def test_any_text_comes_out_as_the_text_it_was(text: str) -> None:
    page = Page(written(element("p", text, title=text)).decode())
    assert page.elements == [("p", {"title": text})]
    assert page.text.strip() == text.strip()


def test_what_is_not_there_is_not_written() -> None:
    root = group("p", [None, element("img", src=PNG, hidden=True, alt=None)], class_="a")
    expected = f'<!doctype html>\n<p class="a"><img src="{PNG}" hidden=""></p>'
    assert written(root) == expected.encode()


def test_text_that_no_encoding_has_is_no_reason_to_fail() -> None:
    assert written(element("p", "a\ud800b")).endswith(b"<p>a?b</p>")


def test_children_are_made_while_the_page_is_written() -> None:
    made = 0

    def paragraphs() -> Iterator[Child]:
        nonlocal made
        for _ in range(1_000):
            made += 1
            yield element("p", "x" * 1_000)

    pieces = document(group("main", paragraphs()))
    next(pieces)
    assert made < 100
    assert sum(map(len, pieces)) > 900_000


def test_a_url_that_is_no_picture_is_rejected() -> None:
    for url in [
        "javascript:alert(1)",
        "//x.org",
        "/x",
        "http://x.org",
        "",
        "data:image/svg+xml;base64,AA",
    ]:
        for name in ("src", "href", "action", "srcset"):
            with pytest.raises(ValueError, match="leads out of the page"):
                element("img", **{name: url})


def test_elements_and_attributes_that_hold_code_are_rejected() -> None:
    for name in ("script", "style", "svg", "iframe", "a", "link", "p onclick=x"):
        with pytest.raises(ValueError, match="not allowed on a page"):
            element(name, HOSTILE)
    for attribute in ("onclick", "style", "srcdoc"):
        with pytest.raises(ValueError, match="would run code"):
            element("p", **{attribute: "x"})


def test_a_shape_is_made_of_numbers() -> None:
    drawn = shape(
        "svg",
        shape("circle", cx=Fraction(0.125), cy=2, r=11, class_="mark"),
        shape("polygon", points=[(0, 0), (-10, 6.5)]),
        shape("text", HOSTILE, x=1.0, y=2),
    )
    body = written(drawn).decode()
    assert '<circle cx="12.5%" cy="2" r="11" class="mark"></circle>' in body
    assert '<polygon points="0,0 -10,6.5"></polygon>' in body
    page = Page(body)
    assert HOSTILE in page.text
    assert [name for name, _ in page.elements] == ["svg", "circle", "polygon", "text"]


def test_what_is_no_number_is_rejected() -> None:
    for value in ["1", "url(#x)", float("nan"), float("inf"), True, None]:
        with pytest.raises(ValueError, match="is not a number"):
            shape("rect", x=value)  # type: ignore[arg-type]


def test_shapes_that_could_do_more_than_be_seen_are_rejected() -> None:
    for name in ("script", "use", "image", "foreignObject", "a", "animate", "style"):
        with pytest.raises(ValueError, match="not an allowed shape"):
            shape(name)
    with pytest.raises(ValueError, match="not a valid class"):
        shape("rect", class_='x" onload="alert(1)')


def test_a_style_sheet_cannot_end_early() -> None:
    assert written(stylesheet("p > a {}")).endswith(b"<style>p > a {}</style>")
    with pytest.raises(ValueError, match="contains <"):
        stylesheet("</style><script>")
