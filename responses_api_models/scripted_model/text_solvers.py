"""Solvers of tasks without tools: `mcqa`, `math` and `reasoning_gym`.

Each recognizes some questions by their wording. The others it guesses, or it gives up.
"""

import re
from collections.abc import Callable
from fractions import Fraction
from typing import ClassVar

from responses_api_models.scripted_model.solver import ScriptedRequest, ScriptedTurn, SeededChoices

_OPTION = re.compile(r"^([A-Z])[:.)] (.+)$", re.MULTILINE)
_PRODUCT = re.compile(r"(\d+) times (\d+)")
_DIVISOR = re.compile(r"divisible by (\d+)")
_WEEKDAY = re.compile(r"Today is (\w+)\..* in (\d+) days")
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


class ChoiceSolver:
    """Solves `mcqa`: it computes the answer or guesses, and answers in the form of the prompt."""

    mistakes: ClassVar[tuple[str, ...]] = ("chooses_wrong", "does_not_commit")

    def recognizes(self, request: ScriptedRequest) -> bool:
        return not request.tools and len(_OPTION.findall(request.question)) > 1

    def next_turn(
        self, request: ScriptedRequest, mistake: str | None, choices: SeededChoices
    ) -> ScriptedTurn:
        options = dict(_OPTION.findall(request.question))
        chosen = _solve(request.question, options)
        thought = f"It must be {chosen}."
        if chosen is None:
            chosen, thought = (
                choices.choose(list(options), "guess"),
                "I do not know and must guess.",
            )
        if mistake == "does_not_commit":
            return ScriptedTurn(thought, "Several of the options could be right.")
        if mistake == "chooses_wrong":
            wrong = [letter for letter in options if letter != chosen]
            chosen = choices.choose(wrong, "wrong option")
        in_box = "\\boxed" in request.task
        form = f"\\boxed{{{chosen}}}" if in_box else f"Answer: {chosen}"
        return ScriptedTurn(thought, f"{options[chosen]} is right.\n\n{form}")


def _solve(question: str, options: dict[str, str]) -> str | None:
    """The letter of the right option; None for a question with another wording."""
    right: set[str] = set()
    if product := _PRODUCT.search(question):
        right = {str(int(product[1]) * int(product[2]))}
    elif divisor := _DIVISOR.search(question):
        numbers = (text for text in options.values() if text.isdecimal())
        right = {number for number in numbers if int(number) % int(divisor[1]) == 0}
    elif (weekday := _WEEKDAY.search(question)) and weekday[1] in _DAYS:
        right = {_DAYS[(_DAYS.index(weekday[1]) + int(weekday[2])) % len(_DAYS)]}
    return next((letter for letter, text in options.items() if text in right), None)


_SCREWS = re.compile(r"packs (\d+) boxes with (\d+) .* fills (\d+) bags with (\d+) ")
_WALKS = re.compile(r"walks \$([^$]+)\$ .* walks \$([^$]+)\$ kilometres more")
_FRACTION = re.compile(r"\\frac\{(\d+)\}\{([1-9]\d*)\}|(\d+)")
_LINEAR = re.compile(r"Solve for \$x\$: \$([^$=^]+)=([^$=^]+)\$")
_DERIVATIVE = re.compile(r"Differentiate \$f\(x\) = ([^$]+)\$")
_DIAGONAL = re.compile(r"area of \$(\d+)\$.*diagonal")
_TERM = re.compile(r"([+-]?) ?(\d*)(x?)(?:\^\{(\d+)\})?")


class MathSolver:
    """Solves `math`. Any form of the right value counts, so it hardly simplifies."""

    mistakes: ClassVar[tuple[str, ...]] = ("gives_up", "is_off_by_one")

    def recognizes(self, request: ScriptedRequest) -> bool:
        return not request.tools and "\\boxed" in request.task

    def next_turn(
        self, request: ScriptedRequest, mistake: str | None, choices: SeededChoices
    ) -> ScriptedTurn:
        known = (solve(request.question) for solve in _MATH_SOLUTIONS)
        solution = next((solution for solution in known if solution is not None), None)
        if solution is None or mistake == "gives_up":
            return ScriptedTurn("I do not see how to begin.", "I cannot solve this.")
        if mistake == "is_off_by_one":
            solution += " + 1"
        return ScriptedTurn(f"I calculate {solution}.", f"The answer is \\boxed{{{solution}}}.")


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


_MATH_SOLUTIONS: tuple[Callable[[str], str | None], ...] = (
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
    """The coefficients of a polynomial by their powers."""
    coefficients: dict[int, int] = {}
    for sign, size, variable, exponent in _TERM.findall(polynomial):
        if size or variable:
            power = int(exponent or 1) if variable else 0
            coefficients[power] = coefficients.get(power, 0) + int(f"{sign}{size or 1}")
    return coefficients


def _written(value: Fraction) -> str:
    sign, size = "-" if value < 0 else "", abs(value)
    return f"{sign}\\frac{{{size.numerator}}}{{{size.denominator}}}"


_BACKWARD = re.compile(r"^Spell this word backward .*: (\w+)$", re.MULTILINE)
_SORTING = re.compile(r"sort these words in (ascending|descending) order .*: (.+)$", re.MULTILINE)
_SEQUENCE = re.compile(r"^((?:-?\d+, ){3,})\?$")


class PuzzleSolver:
    """Solves `reasoning_gym`: spelling, sorting and sequences. It guesses other answers."""

    mistakes: ClassVar[tuple[str, ...]] = ("forgets_the_form", "leaves_the_end_out")

    def recognizes(self, request: ScriptedRequest) -> bool:
        return not request.tools and "<answer>" in request.task

    def next_turn(
        self, request: ScriptedRequest, mistake: str | None, choices: SeededChoices
    ) -> ScriptedTurn:
        question = request.question.strip()
        known = (solve(question) for solve in _PUZZLE_SOLUTIONS)
        answer = next((answer for answer in known if answer is not None), None)
        thought = "I have seen this kind of puzzle before."
        if answer is None:
            answer, thought = str(choices.random("guess").randint(1, 100)), "I can only guess."
        match mistake:
            case "forgets_the_form":
                return ScriptedTurn(thought, "It could be many things.")
            case "leaves_the_end_out":
                answer = answer[:-1]
        return ScriptedTurn(thought, f"<answer>{answer}</answer>")


def _backward(question: str) -> str | None:
    match = _BACKWARD.search(question)
    return match[1][::-1] if match else None


def _sorted_words(question: str) -> str | None:
    if not (match := _SORTING.search(question)):
        return None
    words = sorted(match[2].split(", "), reverse=match[1] == "descending")
    return ", ".join(words)


def _next_number(question: str) -> str | None:
    """Continue a sequence of sums of the last two numbers, or one with equal differences."""
    if not (match := _SEQUENCE.fullmatch(question)):
        return None
    numbers = [int(number) for number in match[1].removesuffix(", ").split(", ")]
    triples = list(zip(numbers, numbers[1:], numbers[2:], strict=False))
    if all(first + second == third for first, second, third in triples):
        return str(numbers[-1] + numbers[-2])
    if all(second - first == third - second for first, second, third in triples):
        return str(2 * numbers[-1] - numbers[-2])
    return None


_PUZZLE_SOLUTIONS: tuple[Callable[[str], str | None], ...] = (
    _backward,
    _sorted_words,
    _next_number,
)
