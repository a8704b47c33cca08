"""Where the final answer is in a text."""

from rollgym.servers.final_answer import last_boxed, without_thinking
from tests.cases import for_each


@for_each(
    ("text", "boxed"),
    [
        (r"so \boxed{5}", "5"),
        (r"\boxed{1} or rather \boxed{2}.", "2"),
        (r"\boxed{\frac{1}{2} + \{x\}}", r"\frac{1}{2} + \{x\}"),
        (r"\boxed{\boxed{3}}", r"\boxed{3}"),
        (r"\boxed {7}, \fbox{8}", "8"),
        (r"\boxed{1} then \boxed{cut short", "1"),
        (r"\boxed{outer \boxed{inner} cut short", "inner"),
        (r"} \boxed{4} }", "4"),
        (r"{ \boxed{4}", "4"),
        ("\\boxed{ a\nb }", "a\nb"),
        (r"\boxed{}", ""),
        (r"\boxed 5", None),
        ("none", None),
        ("", None),
    ],
)
def test_the_last_complete_box_counts(text: str, boxed: str | None) -> None:
    assert last_boxed(text) == boxed


@for_each(
    ("text", "rest"),
    [
        (r"<think>maybe \boxed{1}</think>It is 2.", "It is 2."),
        ("maybe 1</think>It is 2.", "It is 2."),
        ("<think>maybe 1, but", ""),
        ("It is 2.", "It is 2."),
        ("<think>1</think>It\n<think>2</think> is 3.", "It\n is 3."),
        ("It is 2.\n  <think>Or is it", "It is 2.\n"),
        ("print('<think>') # </think> 2", "print('<think>') # </think> 2"),
    ],
)
def test_thoughts_are_no_answers(text: str, rest: str) -> None:
    assert without_thinking(text) == rest
