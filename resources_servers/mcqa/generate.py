"""Makes rows: `python -m resources_servers.mcqa.generate --output FILE`.

Each question has one right option that can be computed. The rows use the grading modes in turn, and
each prompt asks for the form that its mode reads.
"""

from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any, NamedTuple

from resources_servers.mcqa.extraction import GradingMode
from rollgym.records import derive_seed
from rollgym.servers.generator import run_generator

DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
LETTERS = "ABCD"


class Question(NamedTuple):
    """A question with its options by letter, and the letter of the right option."""

    text: str
    options: dict[str, str]
    answer: str


def make_question(random: Random, index: int) -> Question:
    """Make a question. The index decides its kind."""
    text, right, wrong = _KINDS[index % len(_KINDS)](random)
    chosen = [right, *random.sample(sorted(wrong - {right}), len(LETTERS) - 1)]
    random.shuffle(chosen)
    options = dict(zip(LETTERS, chosen, strict=True))
    return Question(text, options, LETTERS[chosen.index(right)])


class _Draft(NamedTuple):
    text: str
    right: str
    wrong: set[str]


def _product(random: Random) -> _Draft:
    first, second = random.randint(12, 29), random.randint(12, 29)
    right = first * second
    wrong = {right + distance for distance in (-20, -11, -10, -2, 2, 10, 11, 20)}
    return _Draft(f"What is {first} times {second}?", str(right), set(map(str, wrong)))


def _divisible(random: Random) -> _Draft:
    divisor = random.randint(6, 12)
    right = divisor * random.randint(10, 40)
    wrong = {right + distance for distance in range(1, divisor)}
    return _Draft(
        f"Which of these numbers is divisible by {divisor}?", str(right), set(map(str, wrong))
    )


def _weekday(random: Random) -> _Draft:
    today, distance = random.randrange(len(DAYS)), random.randint(8, 60)
    right = DAYS[(today + distance) % len(DAYS)]
    return _Draft(
        f"Today is {DAYS[today]}. Which day of the week is it in {distance} days?", right, set(DAYS)
    )


_KINDS: tuple[Callable[[Random], _Draft], ...] = (_product, _divisible, _weekday)


FORMS = {
    GradingMode.STRICT_SINGLE_LETTER_BOXED: (
        r"Think step by step, then give the letter of your choice as \boxed{letter}."
    ),
    GradingMode.LENIENT_BOXED: r"Give your choice as \boxed{letter} or \boxed{text of the option}.",
    GradingMode.LENIENT_ANSWER_COLON: 'End with a line "Answer: letter".',
    GradingMode.LENIENT_ANSWER_COLON_MD: 'Explain your choice, then end with "**Answer: letter**".',
}


def generate_rows(count: int, seed: int) -> Iterator[dict[str, Any]]:
    """Each row depends only on the seed and its own number."""
    modes = list(GradingMode)
    for index in range(count):
        random = Random(derive_seed(seed, "mcqa", index))  # noqa: S311 - reproducible on purpose
        question = make_question(random, index)
        mode = modes[index // 2 % len(modes)]
        options = "\n".join(f"{letter}: {text}" for letter, text in question.options.items())
        prompt = f"{question.text}\n\n{options}\n\n{FORMS[mode]}"
        yield {
            "responses_create_params": {"input": [{"role": "user", "content": prompt}]},
            "options": [{letter: text} for letter, text in question.options.items()],
            "expected_answer": question.answer,
            "grading_mode": mode,
        }


def main(arguments: Sequence[str] | None = None) -> None:
    run_generator("Multiple-choice questions.", generate_rows, arguments)


if __name__ == "__main__":
    main()
