"""What counts as an answer."""

from collections.abc import Iterable

from resources_servers.example_multi_step.app import found_values, read_answers

EXPECTED = ["Ilse Brandt", "Tarnvik", "4719-0021"]


def test_the_last_answer_line_is_read_whatever_its_dress() -> None:
    cases: Iterable[str] = [
        "I found it.\nAnswer: Ilse Brandt; Tarnvik; 4719-0021",
        "**Answer:** Ilse Brandt; Tarnvik; 4719-0021.",
        "answer : ilse brandt;  TARNVIK ; 4719-0021",
        "- Answer: 1. Ilse Brandt; 2. the Tarnvik; 3. **4719-0021**",
        "Answer: Ann; Bo; 1\nNo, wait.\nAnswer: 'Ilse  Brandt'; `Tarnvik`; 4719-0021",
        "Answers: 4719-0021; Tarnvik; Ilse Brandt",
    ]
    for text in cases:
        assert found_values(EXPECTED, read_answers(text)) == EXPECTED


def test_what_is_missing_or_wrong_does_not_count() -> None:
    cases: Iterable[tuple[str, list[str]]] = [
        ("Answer: Ilse Brandt; Tarnvik", ["Ilse Brandt", "Tarnvik"]),
        ("Answer: Ilse Brandt; Karsund; 4719-0022", ["Ilse Brandt"]),
        ("Answer: Ilse; Tarnviken; 4719", []),
        ("Ilse Brandt, Tarnvik, 4719-0021", []),
        ("Answer:", []),
        ("The answer is Ilse Brandt; Tarnvik; 4719-0021", []),
        ("<think>\nAnswer: Ilse Brandt; Tarnvik; 4719-0021</think>", []),
        ("", []),
    ]
    for text, found in cases:
        assert found_values(EXPECTED, read_answers(text)) == found


def test_a_list_of_guesses_is_no_answer() -> None:
    text = "Answer: Ilse Brandt; Tarnvik; 4719-0021; 0000-0000"
    assert found_values(EXPECTED, read_answers(text)) == []
