"""Which option an answer chose, and when it chose none."""

from collections.abc import Iterable
from pathlib import Path

from resources_servers.mcqa.extraction import GradingMode, choice_of, extract_choice

README = Path(__file__).parents[1] / "README.md"
MARKDOWN = GradingMode.LENIENT_ANSWER_COLON_MD
NONE = "\u2013"
LETTERS = {letter: f"option {letter}" for letter in "ABCDEFGHIJ"}


def documented_cases() -> Iterable[tuple[str, list[str]]]:
    """The rows of the table of examples: an answer, and what each mode reads."""
    lines = README.read_text().splitlines()
    header = next(line for line in lines if line.startswith("| answer |"))
    assert [name.strip(" `") for name in header.split("|")[2:-1]] == [
        mode.value for mode in GradingMode
    ]
    for line in lines[lines.index(header) + 2 :]:
        if not line.startswith("|"):
            return
        answer, *choices = (cell.strip() for cell in line.split("|")[1:-1])
        yield answer.strip("`").replace("⏎", "\n"), choices


def test_the_table_in_the_readme_says_what_counts() -> None:
    options = {"A": "Lyon", "B": "Paris", "C": "New Paris", "D": "none of them"}
    cases = list(documented_cases())
    assert len(cases) > 20
    for answer, choices in cases:
        read = [extract_choice(answer, options, mode) or NONE for mode in GradingMode]
        assert read == choices, answer


def test_a_prefix_of_the_row_stands_for_the_word_answer() -> None:
    cases: Iterable[tuple[str, str, str | None]] = [
        ("The answer is (C).", "answer is", "C"),
        ("La réponse est (B).", "La réponse est", "B"),
        ("答えは（C）です。", "答えは", "C"),  # noqa: RUF001
        ("답은 (G)입니다", "답은", "G"),
        ("答えは A/D/E/F です。", "答えは", None),
        (r"\boxed{H}", "answer is", "H"),
    ]
    for text, prefix, letter in cases:
        assert extract_choice(text, LETTERS, MARKDOWN, prefix) == letter


def test_the_last_line_may_name_the_choice_in_any_language() -> None:
    cases: Iterable[tuple[str, str | None]] = [
        ("…\n\nউত্তর: C", "C"),
        ("…\n\n**उत्तर:** D।", "D"),
        ("…\n\nபதில்：C。", "C"),  # noqa: RUF001
        ("উত্তর: A/B", None),
        ("উত্তর: B because C is wrong", None),
        ("উত্তর: B\nand more", None),
        ("A: B", None),
    ]
    for text, letter in cases:
        assert extract_choice(text, LETTERS, MARKDOWN) == letter


def test_what_a_regular_expression_captured_is_a_letter_or_the_text_of_an_option() -> None:
    cases: Iterable[tuple[str, str | None]] = [
        (" b ", "B"),
        ("ب", "B"),
        ("Z", "Z"),
        ("Option  c", "C"),
        ("option", None),
        ("", None),
    ]
    for captured, letter in cases:
        assert choice_of(captured, LETTERS) == letter
