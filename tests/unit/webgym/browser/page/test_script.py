"""The typed side of the page script: what is sent, what is read, what is said when it fails."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import msgspec
import pytest

from tests.cases import for_each
from webgym.browser.contract.answers import Box, Element, Option
from webgym.browser.contract.errors import CommandError, UnknownElementError
from webgym.browser.page.elements import ElementFacts, LocatedElement, StepStart
from webgym.browser.page.script import SOURCE, PageScript

Result = TypeVar("Result")


class Page:
    """Answers every function with the same, and remembers what was called."""

    def __init__(self, answer: object) -> None:
        self.answer = answer if isinstance(answer, bytes) else msgspec.json.encode(answer).decode()
        self.called: list[tuple[str, list[object], bool]] = []
        self.adopted: dict[int, tuple[int, int]] = {}

    async def frame(self, number: int, deadline: float) -> "Page":
        raise AssertionError(number)

    async def evaluate(
        self, function: str, arguments: list[object], deadline: float, *, wait: bool = False
    ) -> object:
        assert deadline == 7.0
        self.called.append((function, arguments, wait))
        return self.answer


def run(work: Coroutine[Any, Any, Result]) -> Result:
    return asyncio.run(work)


def test_the_source_is_one_expression_of_all_parts() -> None:
    assert SOURCE.startswith("(() => {")
    assert SOURCE.endswith("})()")
    for function in ("collect", "locate", "drawMarks", "quiet", "numberedElements"):
        assert f"  {function}:" in SOURCE


def test_elements_are_read_as_the_contract_has_them() -> None:
    page = Page(
        [
            {
                "id": 3,
                "tag": "select",
                "role": "combobox",
                "name": "Size",
                "text": "Large",
                "box": {"x": 1, "y": 2.5, "width": 30, "height": 20},
                "options": [{"id": 4, "text": "Large", "value": "l", "selected": True}],
            }
        ]
    )
    assert run(PageScript(page).collect(7.0)) == (
        Element(
            id=3,
            tag="select",
            role="combobox",
            name="Size",
            text="Large",
            box=Box(1, 2.5, 30, 20),
            options=(Option(4, "Large", "l", selected=True),),
        ),
    )


def test_arguments_go_out_in_the_order_of_the_script() -> None:
    page = Page(None)
    script = PageScript(page)
    run(script.focus_for_typing(7.0, number=5))
    run(script.focus_for_typing(7.0, point=(1.5, 2)))
    run(script.at(3, 4, 7.0))
    run(script.prepare_click(3, 4, 7.0))
    assert page.called == [
        ("focusForTyping", [5, None, None], False),
        ("focusForTyping", [None, 1.5, 2], False),
        ("at", [3, 4], False),
        ("prepareClick", [3, 4], False),
    ]


def test_waiting_for_quiet_awaits_a_promise_and_counts_in_milliseconds() -> None:
    page = Page("quiet")
    assert run(PageScript(page).quiet(0.1, 2, StepStart(3, 0.5), 7.0)) == "quiet"
    assert page.called == [("quiet", [100, 2000, 3000, 500], True)]


def test_a_place_has_its_point_and_facts() -> None:
    page = Page({"x": 10, "y": 20, "facts": {"tag": "a", "kind": "other"}})
    place = run(PageScript(page).locate(2, 7.0))
    assert place == LocatedElement(10, 20, ElementFacts("a"))


@for_each(
    ("answer", "message"),
    [
        ({"missing": "gone"}, "element 2 is not on the page now: use an id from the newest list"),
        ({"missing": "hidden", "facts": {"tag": "a"}}, "element 2 is hidden now"),
        (
            {"missing": "covered", "by": '<div.veil> "Cookies"'},
            'element 2 is covered by <div.veil> "Cookies": close or move that first',
        ),
        ({"missing": "unlisted"}, "choose it with select_option"),
    ],
)
def test_an_element_that_cannot_be_clicked_is_an_error_with_the_reason(
    answer: dict[str, object], message: str
) -> None:
    with pytest.raises(UnknownElementError, match=message):
        run(PageScript(Page(answer)).locate(2, 7.0))


@for_each(
    ("answer", "wanted", "kind", "message"),
    [
        ({"problem": "gone"}, None, UnknownElementError, "element 2 is not on"),
        (
            {"problem": "kind", "tag": "p"},
            None,
            UnknownElementError,
            "neither a list nor an option, but <p>",
        ),
        (
            {"problem": "unknown", "labels": ["A", "B"], "total": 5},
            "C",
            CommandError,
            "list 2: unknown option 'C'; it has A, B and 3 more",
        ),
        ({"problem": "unknown"}, None, CommandError, "give an option; it has none"),
        ({"problem": "disabled list"}, "A", CommandError, "list 2 is disabled"),
        ({"problem": "disabled option", "label": "A"}, "A", CommandError, "'A' is disabled"),
    ],
)
def test_an_option_that_cannot_be_chosen_is_an_error_with_the_reason(
    answer: dict[str, object], wanted: str | None, kind: type[CommandError], message: str
) -> None:
    with pytest.raises(kind, match=message):
        run(PageScript(Page(answer)).select_option(2, wanted, 7.0))


@for_each(
    ("answer", "message"),
    [
        ({"problem": "gone"}, "the field no longer exists"),
        ({"problem": "kind", "kind": "text"}, "has no picker, its kind is text"),
        ({"problem": "disabled"}, "disabled or read-only"),
        (
            {"problem": "form", "type": "date", "form": "YYYY-MM-DD"},
            "a date field takes YYYY-MM-DD, not 'soon'",
        ),
    ],
)
def test_a_value_that_a_field_does_not_take_is_an_error_with_the_reason(
    answer: dict[str, object], message: str
) -> None:
    with pytest.raises(CommandError, match=message):
        run(PageScript(Page(answer)).set_special_value("soon", 7.0))


def test_scrolling_something_that_is_gone_is_an_error() -> None:
    with pytest.raises(UnknownElementError):
        run(PageScript(Page(None)).scroll_element(2, "down", 7.0))
    assert run(PageScript(Page(True)).scroll_element(2, "down", 7.0))
    assert not run(PageScript(Page(False)).scroll_page(90, 7.0))


def test_an_answer_that_is_not_text_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="pageInfo in the page answered bytes"):
        run(PageScript(Page(b"")).page_info(7.0))
