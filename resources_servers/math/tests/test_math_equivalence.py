"""What counts as the same mathematics. Here the comparison runs in the test's own process."""

from collections.abc import Iterable

import pytest

pytest.importorskip("math_verify")

from resources_servers.math.equivalence import compare

EQUAL = [
    ("1/2", "0.5"),
    (r"\frac{1}{2}", r"\dfrac12"),
    (r"$\frac{1}{2}$", "2/4"),
    ("x^2+2x", "x(x+2)"),
    (r"\boxed{3}", r"\(3\)"),
    (r"\{1, 2\}", "2, 1"),
    ("x=3", "3"),
    ("1,000", "1000"),
    (r"50\%", "0.5"),
    (r"2\sqrt{3}", r"\sqrt{12}."),
    ("e^{x} + C", "C + e^x"),
    ("10", r"10 \text{ cm}"),
    (
        r"\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}",
        r"\begin{bmatrix} 1 & 2 \\ 3 & 4 \end{bmatrix}",
    ),
    (r"\frac{1}{2}", r"\int_0^1 x \, dx = \frac{1}{2}"),
    (r"\int f(x) \, dx", r"\int f(x) \, dx"),
]
DIFFERENT = [
    ("1/3", "0.33"),
    ("3", "4"),
    ("3", "3, 4"),
    ("3", r"2 \text{ or } 3"),
    ("3", r"\{1, 2, 3, 4\}"),
    ("3", "1=2=3=4"),
    ("3", r"\pm 3"),
    ("3x + C", "3x"),
    (r"50\%", "50"),
    ("(1, 2)", "(2, 1)"),
    ("3", "3x"),
]


def test_another_form_of_the_expected_answer_is_equal() -> None:
    cases: Iterable[tuple[str, str]] = EQUAL
    for expected, candidate in cases:
        assert compare(expected, candidate, "expression") == "equal"


def test_another_value_is_different() -> None:
    cases: Iterable[tuple[str, str]] = DIFFERENT
    for expected, candidate in cases:
        assert compare(expected, candidate, "expression") == "different"


def test_what_is_no_mathematics_is_unreadable() -> None:
    cases: Iterable[tuple[str, str]] = [
        ("???", "3"),
        ("", "3"),
        ("3", "???"),
        ("3", ""),
        (r"\foo{", "3"),
    ]
    for expected, candidate in cases:
        assert compare(expected, candidate, "expression") == "unreadable"


def test_an_operation_that_is_left_to_be_done_is_no_answer() -> None:
    cases: Iterable[tuple[str, str]] = [
        (r"\frac{1}{2}", r"\int_0^1 x \, dx"),
        ("2x", r"\frac{d}{dx} x^2"),
        ("6", r"\sum_{n=1}^{3} n"),
        ("2", r"\lim_{x \to 1} (x + 1)"),
    ]
    for expected, candidate in cases:
        assert compare(expected, candidate, "expression") == "unfinished"


def test_of_a_text_the_last_formula_or_number_counts() -> None:
    cases: Iterable[str] = [
        "3 apples.",
        "$3$.",
        "first 5, then 3",
        r"from $\int_0^1 6x \, dx$ we get $3$",
    ]
    for text in cases:
        assert compare("3", text, "text") == "equal"
