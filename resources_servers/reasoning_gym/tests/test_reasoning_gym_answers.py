"""Where the answer is in a response."""

import time
from collections.abc import Iterable

from resources_servers.reasoning_gym.app import find_answer


def test_a_tag_is_preferred_then_a_box_then_the_last_line() -> None:
    cases: Iterable[tuple[str, str, str]] = [
        ("So <answer> 42 </answer>.", "42", "tag"),
        (r"<answer>1</answer> no, <answer>2</answer> \boxed{3}", "2", "tag"),
        ("<answer>1 2\n3 4</answer>", "1 2\n3 4", "tag"),
        ("So <answer>42", "42", "tag"),
        ("<think><answer>1</answer></think>2", "2", "line"),
        (r"So \boxed{7}, I think.", "7", "box"),
        ("First.\n\n 42 \n\n", "42", "line"),
    ]
    for response, text, source in cases:
        assert find_answer(response) == (text, source)


def test_an_empty_answer_is_none() -> None:
    cases: Iterable[str] = [
        "",
        "\n ",
        "<think>2",
        "2 <answer> </answer>",
        r"2 \boxed{}",
        "2 <answer>",
    ]
    for response in cases:
        assert find_answer(response) is None


def test_hostile_responses_are_read_in_linear_time() -> None:
    cases: Iterable[str] = ["<answer>" * 100_000, "\n" * 1_000_000, r"\boxed{" * 100_000]
    for response in cases:
        began = time.process_time()
        find_answer(response)
        assert time.process_time() - began < 5
