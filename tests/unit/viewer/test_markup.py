import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollgym.viewer.markup import document, element, group
from tests.integration.viewer.rollouts import HOSTILE, Page


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\0")))
def test_any_text_comes_out_as_the_text_it_was(text: str) -> None:
    page = Page(document(element("p", text, title=text)).decode())
    assert page.elements == [("p", {"title": text})]
    assert page.text.strip() == text.strip()


def test_what_is_not_there_is_not_written() -> None:
    root = group("p", [None, element("img", src="/x", hidden=True, alt=None)], class_="a")
    assert document(root) == b'<!doctype html>\n<p class="a"><img src="/x" hidden=""></p>'


def test_text_that_no_encoding_has_is_no_reason_to_fail() -> None:
    assert document(element("p", "a\ud800b")).endswith(b"<p>a?b</p>")


@pytest.mark.parametrize("url", ["javascript:alert(1)", "//x.org", "/\\x.org", "http://x.org", ""])
def test_a_url_that_leads_elsewhere_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="leads elsewhere"):
        element("a", href=url)


def test_elements_and_attributes_that_hold_code_are_refused() -> None:
    for name in ("script", "style", "svg", "iframe"):
        with pytest.raises(ValueError, match="more than text"):
            element(name, HOSTILE)
    for attribute in ("onclick", "style"):
        with pytest.raises(ValueError, match="is code"):
            element("p", **{attribute: "x"})
