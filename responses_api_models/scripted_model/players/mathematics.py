"""Plays `math`: a handful of problems that it knows by their wording."""

import re
from collections.abc import Callable
from fractions import Fraction
from typing import ClassVar

from responses_api_models.scripted_model.conversation import Conversation
from responses_api_models.scripted_model.luck import Luck
from responses_api_models.scripted_model.player import Turn

_SCREWS = re.compile(r"packs (\d+) boxes with (\d+) .* fills (\d+) bags with (\d+) ")
_WALKS = re.compile(r"walks \$([^$]+)\$ .* walks \$([^$]+)\$ kilometres more")
_FRACTION = re.compile(r"\\frac\{(\d+)\}\{([1-9]\d*)\}|(\d+)")
_LINEAR = re.compile(r"Solve for \$x\$: \$([^$=^]+)=([^$=^]+)\$")
_DERIVATIVE = re.compile(r"Differentiate \$f\(x\) = ([^$]+)\$")
_DIAGONAL = re.compile(r"area of \$(\d+)\$.*diagonal")
_TERM = re.compile(r"([+-]?) ?(\d*)(x?)(?:\^\{(\d+)\})?")


class MathematicsPlayer:
    """Any form of the right value counts, so it simplifies as little as it can."""

    mistakes: ClassVar[tuple[str, ...]] = ("gives_up", "is_off_by_one")

    def knows(self, conversation: Conversation) -> bool:
        return not conversation.tools and "\\boxed" in conversation.task

    def play(self, conversation: Conversation, mistake: str | None, luck: Luck) -> Turn:
        known = (solve(conversation.question) for solve in _SOLVERS)
        solution = next((solution for solution in known if solution is not None), None)
        if solution is None or mistake == "gives_up":
            return Turn("I do not see how to begin.", "I cannot solve this.")
        if mistake == "is_off_by_one":
            solution += " + 1"
        return Turn(f"I calculate {solution}.", f"The answer is \\boxed{{{solution}}}.")


def _screws(question: str) -> str | None:
    if not (match := _SCREWS.search(question)):
        return None
    boxes, screws, bags, taken = map(int, match.groups())
    return str(boxes * screws - bags * taken)


def _walks(question: str) -> str | None:
    if not (match := _WALKS.search(question)):
        return None
    first, more = _fraction(match[1]), _fraction(match[2])
    return None if first is None or more is None else _written(2 * first + more)


def _linear_equation(question: str) -> str | None:
    if not (match := _LINEAR.search(question)):
        return None
    left, right = _coefficients(match[1]), _coefficients(match[2])
    slope = left.get(1, 0) - right.get(1, 0)
    return _written(Fraction(right.get(0, 0) - left.get(0, 0), slope)) if slope else None


def _derivative(question: str) -> str | None:
    if not (match := _DERIVATIVE.search(question)):
        return None
    terms = (
        f"{power * coefficient}x^{{{power - 1}}}"
        for power, coefficient in _coefficients(match[1]).items()
        if power
    )
    return " + ".join(terms) or "0"


def _diagonal(question: str) -> str | None:
    match = _DIAGONAL.search(question)
    return f"\\sqrt{{{2 * int(match[1])}}}" if match else None


_SOLVERS: tuple[Callable[[str], str | None], ...] = (
    _screws,
    _walks,
    _linear_equation,
    _derivative,
    _diagonal,
)


def _fraction(text: str) -> Fraction | None:
    match = _FRACTION.fullmatch(text)
    if not match:
        return None
    return Fraction(int(match[3])) if match[3] else Fraction(int(match[1]), int(match[2]))


def _coefficients(polynomial: str) -> dict[int, int]:
    """By their powers."""
    coefficients: dict[int, int] = {}
    for sign, size, variable, exponent in _TERM.findall(polynomial):
        if size or variable:
            power = int(exponent or 1) if variable else 0
            coefficients[power] = coefficients.get(power, 0) + int(f"{sign}{size or 1}")
    return coefficients


def _written(value: Fraction) -> str:
    sign, size = "-" if value < 0 else "", abs(value)
    return f"{sign}\\frac{{{size.numerator}}}{{{size.denominator}}}"
