"""Plays `reasoning_gym`: the puzzles that take no reasoning."""

import re
from collections.abc import Callable
from typing import ClassVar

from responses_api_models.scripted_model.conversation import Conversation
from responses_api_models.scripted_model.luck import Luck
from responses_api_models.scripted_model.player import Turn

_BACKWARD = re.compile(r"^Spell this word backward .*: (\w+)$", re.MULTILINE)
_SORTING = re.compile(r"sort these words in (ascending|descending) order .*: (.+)$", re.MULTILINE)
_SEQUENCE = re.compile(r"^((?:-?\d+, ){3,})\?$")


class PuzzlePlayer:
    """It guesses what it cannot solve."""

    mistakes: ClassVar[tuple[str, ...]] = ("forgets_the_form", "leaves_the_end_out")

    def knows(self, conversation: Conversation) -> bool:
        return not conversation.tools and "<answer>" in conversation.task

    def play(self, conversation: Conversation, mistake: str | None, luck: Luck) -> Turn:
        question = conversation.question.strip()
        known = (solve(question) for solve in _SOLVERS)
        answer = next((answer for answer in known if answer is not None), None)
        thought = "I have seen this kind of puzzle before."
        if answer is None:
            answer, thought = str(luck.random("guess").randint(1, 100)), "I can only guess."
        match mistake:
            case "forgets_the_form":
                return Turn(thought, "It could be many things.")
            case "leaves_the_end_out":
                answer = answer[:-1]
        return Turn(thought, f"<answer>{answer}</answer>")


def _backward(question: str) -> str | None:
    match = _BACKWARD.search(question)
    return match[1][::-1] if match else None


def _sorted_words(question: str) -> str | None:
    if not (match := _SORTING.search(question)):
        return None
    words = sorted(match[2].split(", "), reverse=match[1] == "descending")
    return ", ".join(words)


def _next_number(question: str) -> str | None:
    """Of a sequence in which each number is the sum of two, or as far from the last as ever."""
    if not (match := _SEQUENCE.fullmatch(question)):
        return None
    numbers = [int(number) for number in match[1].removesuffix(", ").split(", ")]
    triples = list(zip(numbers, numbers[1:], numbers[2:], strict=False))
    if all(first + second == third for first, second, third in triples):
        return str(numbers[-1] + numbers[-2])
    if all(second - first == third - second for first, second, third in triples):
        return str(2 * numbers[-1] - numbers[-2])
    return None


_SOLVERS: tuple[Callable[[str], str | None], ...] = (_backward, _sorted_words, _next_number)
