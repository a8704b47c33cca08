"""Questions with one right option that anybody can check."""

from collections.abc import Callable
from random import Random
from typing import NamedTuple

DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
LETTERS = "ABCD"


class Question(NamedTuple):
    """The options by letter, and the letter of the right one."""

    text: str
    options: dict[str, str]
    answer: str


def make_question(random: Random, index: int) -> Question:
    """The kinds of questions take turns."""
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
