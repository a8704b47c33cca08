"""Which option an answer chose, and when it chose none."""

import time
from collections.abc import Iterable

from resources_servers.mcqa.app import GradingMode, extract_choice

OPTIONS = {"A": "Paris", "B": "New York", "C": "3.5 m", "D": "none of them"}
STRICT = GradingMode.STRICT_SINGLE_LETTER_BOXED
BOXED = GradingMode.LENIENT_BOXED
COLON = GradingMode.LENIENT_ANSWER_COLON


def test_a_choice_in_the_form_of_its_mode_is_read() -> None:
    cases: Iterable[tuple[GradingMode, str, str]] = [
        (STRICT, r"So it is \boxed{B}.", "B"),
        (STRICT, r"\boxed{ B }", "B"),
        (STRICT, r"First \boxed{A}, but no: \boxed{C}", "C"),
        (STRICT, r"<think>\boxed{A}?</think>It is \boxed{B}", "B"),
        (STRICT, r"\boxed{A} and then it broke off: \boxed{B", "A"),
        (BOXED, r"\boxed{B}", "B"),
        (BOXED, r"\boxed{b}", "B"),
        (BOXED, r"\boxed{(B)}", "B"),
        (BOXED, r"\boxed{B.}", "B"),
        (BOXED, r"$\boxed{\text{B}}$", "B"),
        (BOXED, r"\boxed{\textbf{(B)}}", "B"),
        (BOXED, r"\boxed{B: New York}", "B"),
        (BOXED, r"\boxed{B) new york}", "B"),
        (BOXED, r"\boxed{New York}", "B"),
        (BOXED, r"\boxed{\text{new  york.}}", "B"),
        (BOXED, r"\boxed{3.5 m}", "C"),
        (BOXED, r"\boxed {A}", "A"),
        (COLON, "Answer: B", "B"),
        (COLON, "Final answer: (b).", "B"),
        (COLON, "**Answer:** B", "B"),
        (COLON, "**Answer: B**", "B"),
        (COLON, "The answer is: New York", "B"),
        (COLON, "Answer: A\nOn second thought,\nAnswer: D", "D"),
        (COLON, "Answer:\n\nB", "B"),
        (COLON, "Answer: my final answer: B", "B"),
        (COLON, r"Answer: $\boxed{B}$", "B"),
        (COLON, "Answer: B. New York", "B"),
    ]
    for mode, text, letter in cases:
        assert extract_choice(text, OPTIONS, mode) == letter


def test_everything_else_is_no_choice() -> None:
    cases: Iterable[tuple[GradingMode, str]] = [
        (STRICT, "B"),
        (STRICT, "Answer: B"),
        (STRICT, r"\boxed{b}"),
        (STRICT, r"\boxed{\text{B}}"),
        (STRICT, r"\boxed{New York}"),
        (STRICT, r"\boxed{E}"),
        (STRICT, r"\boxed{A} \boxed{A or B}"),
        (STRICT, r"<think>It must be \boxed{B}"),
        (BOXED, "Answer: B"),
        (BOXED, r"\boxed{A, B}"),
        (BOXED, r"\boxed{A or B}"),
        (BOXED, r"\boxed{B: Paris}"),
        (BOXED, r"\boxed{York}"),
        (BOXED, r"\boxed{E}"),
        (BOXED, r"\boxed{}"),
        (BOXED, r"\boxed{B"),
        (BOXED, r"\boxed{{B}"),
        (COLON, r"\boxed{B}"),
        (COLON, "The answer is B"),
        (COLON, "Answer: A and B"),
        (COLON, "Answer: Both"),
        (COLON, "Answer: B: Paris"),
        (COLON, "Answer:"),
        (COLON, ""),
    ]
    for mode, text in cases:
        assert extract_choice(text, OPTIONS, mode) is None


def test_a_text_that_two_options_share_chooses_neither() -> None:
    options = {"A": "yes", "B": "Yes", "C": "no"}
    assert extract_choice(r"\boxed{yes}", options, BOXED) is None
    assert extract_choice(r"\boxed{no}", options, BOXED) == "C"


def test_a_letter_counts_before_an_option_that_reads_like_one() -> None:
    options = {"A": "b", "B": "a", "C": "x"}
    assert extract_choice(r"\boxed{a}", options, BOXED) == "A"
    assert extract_choice(r"\boxed{x}", options, BOXED) == "C"


def test_a_megabyte_of_nothing_is_read_at_once() -> None:
    cases: Iterable[GradingMode] = list(GradingMode)
    cases_1: Iterable[str] = [
        "answer" + " " * 300_000,
        "answer:" + " " * 300_000,
        r"\boxed{" * 50_000,
        r"\boxed{" + "{" * 300_000,
        "answer: a." + " " * 300_000,
        "answer" * 50_000,
    ]
    for mode in cases:
        for text in cases_1:
            began = time.process_time()
            assert extract_choice(text, OPTIONS, mode) in (None, "A")
            assert time.process_time() - began < 2
