"""The generated problems: reproducible, and with right answers."""

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

pytest.importorskip("math_verify")

import sympy  # type: ignore[import-untyped]
from latex2sympy2_extended import latex2sympy  # type: ignore[import-untyped]

from resources_servers.math.equivalence import compare
from resources_servers.math.generate import MAKERS, generate_rows

EXAMPLE = Path(__file__).parents[1] / "data" / "example.jsonl"
ROWS = list(generate_rows(count=2 * len(MAKERS), seed=11))


def formulas(question: str) -> list[str]:
    return question.split("$")[1::2]


def solved(question: str) -> str:
    """The answer by SymPy, from nothing but the question."""
    x = latex2sympy("x")
    parsed = [latex2sympy(formula) for formula in formulas(question) if formula != r"\{1, 2\}"]
    numbers = [int(word) for word in question.replace(",", " ").split() if word.isdecimal()]
    match question.split(maxsplit=1)[0]:
        case "A" if "workshop" in question:
            result = numbers[0] * numbers[1] - numbers[2] * numbers[3]
        case "Ada":
            result = parsed[0] + parsed[0] + parsed[1]
        case "A":
            result = sympy.sqrt(2 * parsed[0])
        case "Solve":
            (result,) = sympy.solve(parsed[1], x)
        case "Find":
            result = sympy.FiniteSet(*sympy.solve(parsed[0], x))
        case "Multiply":
            result = sympy.expand(parsed[0]).coeff(x, 1)
        case "Differentiate":
            result = sympy.diff(parsed[0].rhs, x)
        case "What":
            result = sympy.integrate(parsed[0].rhs, (x, parsed[1].rhs, parsed[2].rhs))
        case "How":
            points = [sympy.Matrix(json.loads(f"[{pair[1:-1]}]")) for pair in formulas(question)]
            result = (points[0] - points[1]).norm()
    return str(sympy.latex(result))


def test_the_expected_answer_is_right_and_readable() -> None:
    cases: Iterable[dict[str, str]] = ROWS
    for row in cases:
        assert compare(row["expected_answer"], row["expected_answer"], "expression") == "equal"
        assert compare(row["expected_answer"], solved(row["question"]), "expression") == "equal"


def test_repeating_a_formula_of_the_question_is_no_answer() -> None:
    cases: Iterable[dict[str, str]] = ROWS
    for row in cases:
        for formula in formulas(row["question"]):
            assert formula == row["expected_answer"] or (
                compare(row["expected_answer"], formula, "expression") != "equal"
            )


def test_the_same_seed_gives_the_same_rows_and_a_longer_file_begins_with_them() -> None:
    assert list(generate_rows(5, seed=11)) == ROWS[:5]
    assert list(generate_rows(5, seed=12)) != ROWS[:5]


def test_the_bundled_example_is_what_the_generator_writes(tmp_path: Path) -> None:
    output = tmp_path / "folder" / "rows.jsonl"
    command = [sys.executable, "-m", "resources_servers.math.generate", "--output", str(output)]
    subprocess.run(command, check=True, cwd=Path(__file__).parents[3])
    assert output.read_bytes() == EXAMPLE.read_bytes()
    assert len(output.read_text().splitlines()) == 5
