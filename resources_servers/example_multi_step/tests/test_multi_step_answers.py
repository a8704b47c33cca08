"""What counts as an answer."""

import time

import pytest

from resources_servers.example_multi_step.app import found_values, read_answers

EXPECTED = ["Ilse Brandt", "Tarnvik", "4719-0021"]


@pytest.mark.parametrize(
    "text",
    [
        "I found it.\nAnswer: Ilse Brandt; Tarnvik; 4719-0021",
        "**Answer:** Ilse Brandt; Tarnvik; 4719-0021.",
        "answer : ilse brandt;  TARNVIK ; 4719-0021",
        "- Answer: 1. Ilse Brandt; 2. the Tarnvik; 3. **4719-0021**",
        "Answer: Ann; Bo; 1\nNo, wait.\nAnswer: 'Ilse  Brandt'; `Tarnvik`; 4719-0021",
        "Answers: 4719-0021; Tarnvik; Ilse Brandt",
    ],
)
def test_the_last_answer_line_is_read_whatever_its_dress(text: str) -> None:
    assert found_values(EXPECTED, read_answers(text)) == EXPECTED


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Answer: Ilse Brandt; Tarnvik", ["Ilse Brandt", "Tarnvik"]),
        ("Answer: Ilse Brandt; Karsund; 4719-0022", ["Ilse Brandt"]),
        ("Answer: Ilse; Tarnviken; 4719", []),
        ("Ilse Brandt, Tarnvik, 4719-0021", []),
        ("Answer:", []),
        ("The answer is Ilse Brandt; Tarnvik; 4719-0021", []),
        ("", []),
    ],
)
def test_what_is_missing_or_wrong_does_not_count(text: str, found: list[str]) -> None:
    assert found_values(EXPECTED, read_answers(text)) == found


def test_a_list_of_guesses_is_no_answer() -> None:
    text = "Answer: Ilse Brandt; Tarnvik; 4719-0021; 0000-0000"
    assert found_values(EXPECTED, read_answers(text)) == []


@pytest.mark.parametrize("text", ["\n" * 300_000, "answer" + " " * 300_000, "* " * 200_000])
def test_a_megabyte_of_nothing_is_read_at_once(text: str) -> None:
    began = time.process_time()
    assert read_answers(text) == []
    assert time.process_time() - began < 2
