"""The demo's task set: little puzzles with one right answer, and the verifier that knows it.

A puzzle depends on the run's seed and its own index alone, so any number of them can be made lazily
and the first ten are the same whether ten or a million are asked for.
"""

import re
from collections.abc import Iterator
from random import Random

import msgspec

from rollgym.records import Row, Task, derive_seed

HARDEST = 5
_ANSWER = re.compile(r"^Answer: (.+)$", re.MULTILINE)
# fmt: off
_WORDS = (
    "acorn", "breeze", "candle", "dragonfly", "ember", "feather", "geyser", "harbour", "island",
    "juniper", "kettle", "lantern", "meadow", "nebula", "orchard", "pebble", "quiver", "reed",
    "steeple", "thistle", "umber", "velvet", "weather", "yonder", "zephyr",
)
# fmt: on


class Puzzle(msgspec.Struct, frozen=True):
    """A question in words, how hard it is (1 to 5), and its answer."""

    family: str
    difficulty: int
    question: str
    answer: str

    def row(self) -> Row:
        """The row of a JSONL file that asks this puzzle."""
        return Row.of(
            {
                "responses_create_params": {"input": [{"role": "user", "content": self.question}]},
                "family": self.family,
                "difficulty": self.difficulty,
                "expected_answer": self.answer,
            }
        )


def puzzle_tasks(count: int, repeats: int, seed: int) -> Iterator[Task]:
    """The first `count` puzzles of a seed, each to be worked on `repeats` times."""
    for index in range(count):
        yield Task(index, make_puzzle(index, seed).row(), repeats)


def make_puzzle(index: int, seed: int) -> Puzzle:
    """The families take turns."""
    random = Random(derive_seed(seed, "puzzle", index))  # noqa: S311 - reproducible on purpose
    difficulty = random.randint(1, HARDEST)
    family = (_arithmetic, _letters, _sorting)[index % 3]
    return family(random, difficulty)


def verify(row: Row, response: str) -> float:
    """The reward of a response: 1 for the right answer, and part of it for a partly sorted list.

    A response without an answer, or with several, earns nothing.
    """
    answers = _ANSWER.findall(response)
    expected = row.get("expected_answer", str, "")
    if len(answers) != 1:
        return 0.0
    if row.get("family", str) == "sorting":
        return _share_in_place(answers[0].split(", "), expected.split(", "))
    return float(answers[0] == expected)


def _arithmetic(random: Random, difficulty: int) -> Puzzle:
    value = random.randint(2, 20)
    sentences = [f"Start with {value}."]
    for _ in range(difficulty + 1):
        operand = random.randint(2, 12)
        match random.choice(("Add", "Subtract", "Multiply by")):
            case "Add" as order:
                value += operand
            case "Subtract" as order:
                value -= operand
            case order:
                value *= operand
        sentences.append(f"{order} {operand}.")
    question = " ".join([*sentences, "What is the result?"])
    return Puzzle("arithmetic", difficulty, question, str(value))


def _letters(random: Random, difficulty: int) -> Puzzle:
    phrase = " ".join(random.sample(_WORDS, difficulty + 1))
    letter = random.choice("aeinrt")
    question = f"How often does the letter {letter} occur in: {phrase}?"
    return Puzzle("letters", difficulty, question, str(phrase.count(letter)))


def _sorting(random: Random, difficulty: int) -> Puzzle:
    numbers = random.sample(range(10, 100), 2 + difficulty)
    question = f"Sort from small to large: {_listed(numbers)}."
    return Puzzle("sorting", difficulty, question, _listed(sorted(numbers)))


def _listed(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers))


def _share_in_place(given: list[str], expected: list[str]) -> float:
    if sorted(given) != sorted(expected):
        return 0.0
    right = sum(one == other for one, other in zip(given, expected, strict=True))
    return right / len(expected)
