"""Where the answer is in a response."""

from collections.abc import Iterable

from resources_servers.math.app import find_answer


def test_a_box_is_preferred_then_an_answer_line_then_the_end() -> None:
    cases: Iterable[tuple[str, str, str, str]] = [
        (r"Answer: 1. No: \boxed{2}", "2", "box", "expression"),
        (r"So \boxed{\frac{1}{2}}. The answer is 3.", r"\frac{1}{2}", "box", "expression"),
        ("**Final Answer**: 12", "12", "line", "expression"),
        ("**Answer:** 3x + C", "3x + C", "line", "expression"),
        ("answer =  7", "7", "line", "expression"),
        ("Answer: 1\nOn second thoughts:\nAnswer: 2", "2", "line", "expression"),
        (r"Answer: \sin(x) + sqrt(2)", r"\sin(x) + sqrt(2)", "line", "expression"),
        ("The answer is 3 apples.", "3 apples.", "line", "text"),
        ("Answer: $3$.", "$3$.", "line", "text"),
        ("I count 12, then 13.", "I count 12, then 13.", "end", "text"),
        ("The answer depends on 2.", "The answer depends on 2.", "end", "text"),
        (r"\boxed{} 5", r"\boxed{} 5", "end", "text"),
        (r"<think>\boxed{1}</think>5", "5", "end", "text"),
    ]
    for response, text, source, reading in cases:
        assert find_answer(response) == (text, source, reading)


def test_a_response_that_says_nothing_has_no_answer() -> None:
    cases: Iterable[str] = ["", " \n ", r"<think>\boxed{1}"]
    for response in cases:
        assert find_answer(response) is None
