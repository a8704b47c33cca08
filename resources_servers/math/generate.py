"""Makes rows: `python -m resources_servers.math.generate --count N --seed S --output FILE`.

Questions contain random numbers, and each answer is computed exactly from the same numbers, so it
is right by construction. No question contains an expression that equals its answer: every form of
the answer counts, so repeating the question would get a reward.
"""

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from math import isqrt
from random import Random
from typing import Any, NamedTuple

from rollgym.records import derive_seed
from rollgym.servers.generator import run_generator


class MathProblem(NamedTuple):
    """A question in text with LaTeX, and its answer in LaTeX."""

    topic: str
    question: str
    expected_answer: str


def arithmetic(random: Random) -> MathProblem:
    boxes, screws, bags, taken = (random.randint(6, 40) for _ in range(4))
    taken = min(taken, boxes * screws // bags)
    question = (
        f"A workshop packs {boxes} boxes with {screws} screws each. It then fills {bags} bags with "
        f"{taken} of these screws each. How many screws stay in the boxes?"
    )
    return MathProblem("arithmetic", question, str(boxes * screws - bags * taken))


def fractions(random: Random) -> MathProblem:
    first, second = (Fraction(random.randint(1, 20), random.randint(2, 15)) for _ in range(2))
    question = (
        f"Ada walks ${fraction(first)}$ kilometres and Bela walks ${fraction(second)}$ kilometres "
        "more than she does. How many kilometres do they walk together? Answer with a fraction."
    )
    return MathProblem("fractions", question, fraction(2 * first + second))


def square_root(random: Random) -> MathProblem:
    outer, inner = random.randint(2, 12), random.choice((2, 3, 5, 6, 7, 10, 11, 13))
    question = f"A square has an area of ${outer * outer * inner}$. How long is its diagonal?"
    return MathProblem("roots", question, rf"{outer}\sqrt{{{2 * inner}}}")


def linear_equation(random: Random) -> MathProblem:
    solution = Fraction(random.randint(-20, 20), random.randint(1, 6))
    left, right = random.sample(range(2, 10), 2)
    constant = random.randint(-15, 15)
    # left x + constant = right x + other, with everything whole after multiplication
    other = (left - right) * solution + constant
    scale = other.denominator
    question = (
        f"Solve for $x$: ${polynomial((constant * scale, left * scale))} = "
        f"{polynomial((int(other * scale), right * scale))}$."
    )
    return MathProblem("algebra", question, fraction(solution))


def quadratic_equation(random: Random) -> MathProblem:
    low, high = sorted(random.sample(range(-12, 13), 2))
    question = (
        f"Find all solutions of ${polynomial((low * high, -low - high, 1))} = 0$. "
        "Give them as a set, such as $\\{1, 2\\}$."
    )
    return MathProblem("algebra", question, rf"\{{{low}, {high}\}}")


def coefficient(random: Random) -> MathProblem:
    first, second = ((random.randint(-9, 9), random.randint(1, 6)) for _ in range(2))
    question = (
        f"Multiply $({polynomial(first)})({polynomial(second)})$ out. What is the coefficient of "
        "$x$?"
    )
    return MathProblem("algebra", question, str(first[0] * second[1] + first[1] * second[0]))


def derivative(random: Random) -> MathProblem:
    coefficients = _coefficients(random, degree=random.randint(2, 5))
    question = f"Differentiate $f(x) = {polynomial(coefficients)}$."
    slopes = [power * value for power, value in enumerate(coefficients)][1:]
    return MathProblem("calculus", question, polynomial(slopes))


def definite_integral(random: Random) -> MathProblem:
    coefficients = _coefficients(random, degree=random.randint(1, 3))
    low, high = sorted(random.sample(range(-3, 5), 2))
    area = sum(
        Fraction(value * (high ** (power + 1) - low ** (power + 1)), power + 1)
        for power, value in enumerate(coefficients)
    )
    question = (
        f"What is the integral of $f(x) = {polynomial(coefficients)}$ from $x = {low}$ to "
        f"$x = {high}$?"
    )
    return MathProblem("calculus", question, fraction(Fraction(area)))


def distance(random: Random) -> MathProblem:
    a, b = random.randint(1, 9), random.randint(1, 9)
    square = a * a + b * b
    x, y = random.randint(-9, 9), random.randint(-9, 9)
    question = f"How far is the point $({x}, {y})$ from the point $({x + a}, {y + b})$?"
    root = isqrt(square)
    answer = str(root) if root * root == square else rf"\sqrt{{{square}}}"
    return MathProblem("geometry", question, answer)


MAKERS: tuple[Callable[[Random], MathProblem], ...] = (
    arithmetic,
    fractions,
    linear_equation,
    derivative,
    square_root,
    quadratic_equation,
    definite_integral,
    coefficient,
    distance,
)


def fraction(value: Fraction) -> str:
    """In LaTeX, in lowest terms, with its sign in front."""
    if value.denominator == 1:
        return str(value.numerator)
    sign = "-" if value < 0 else ""
    return rf"{sign}\frac{{{abs(value.numerator)}}}{{{value.denominator}}}"


def polynomial(coefficients: Sequence[int]) -> str:
    """In LaTeX, from the coefficients in ascending order of their powers."""
    written = ""
    for power in reversed(range(len(coefficients))):
        value = coefficients[power]
        if value == 0:
            continue
        size = "" if abs(value) == 1 and power > 0 else str(abs(value))
        variable = ("", "x")[power] if power < 2 else f"x^{{{power}}}"
        sign = "-" if value < 0 else "+"
        if written:
            written += f" {sign} {size}{variable}"
        else:
            written = f"{sign.removeprefix('+')}{size}{variable}"
    return written or "0"


def _coefficients(random: Random, degree: int) -> list[int]:
    return [random.randint(-9, 9) for _ in range(degree)] + [random.randint(1, 9)]


INSTRUCTIONS = (
    "Solve the problem step by step. Put the final answer, and nothing else, in \\boxed{}."
)


def generate_rows(count: int, seed: int) -> Iterator[dict[str, Any]]:
    """Each row depends only on the seed and its own number."""
    for index in range(count):
        random = Random(derive_seed(seed, "math", index))  # noqa: S311 - reproducible on purpose
        problem = MAKERS[index % len(MAKERS)](random)
        yield {
            "responses_create_params": {
                "input": [
                    {"role": "developer", "content": INSTRUCTIONS},
                    {"role": "user", "content": problem.question},
                ]
            },
            "question": problem.question,
            "expected_answer": problem.expected_answer,
            "topic": problem.topic,
        }


def main(arguments: Sequence[str] | None = None) -> None:
    run_generator("Problems of arithmetic, algebra and calculus.", generate_rows, arguments)


if __name__ == "__main__":
    main()
