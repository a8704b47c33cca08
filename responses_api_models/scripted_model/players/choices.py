"""Plays `mcqa`: works the answer out where it can, and guesses where it cannot."""

import re
from typing import ClassVar

from responses_api_models.scripted_model.conversation import Conversation
from responses_api_models.scripted_model.luck import Luck
from responses_api_models.scripted_model.player import Turn

_OPTION = re.compile(r"^([A-Z])[:.)] (.+)$", re.MULTILINE)
_PRODUCT = re.compile(r"(\d+) times (\d+)")
_DIVISOR = re.compile(r"divisible by (\d+)")
_WEEKDAY = re.compile(r"Today is (\w+)\..* in (\d+) days")
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


class ChoicePlayer:
    """It answers in the form that the prompt asks for."""

    mistakes: ClassVar[tuple[str, ...]] = ("chooses_wrong", "does_not_commit")

    def knows(self, conversation: Conversation) -> bool:
        return not conversation.tools and len(_OPTION.findall(conversation.question)) > 1

    def play(self, conversation: Conversation, mistake: str | None, luck: Luck) -> Turn:
        options = dict(_OPTION.findall(conversation.question))
        chosen = _solve(conversation.question, options)
        thought = f"It must be {chosen}."
        if chosen is None:
            chosen, thought = luck.choose(list(options), "guess"), "I do not know and must guess."
        if mistake == "does_not_commit":
            return Turn(thought, "Several of the options could be right.")
        if mistake == "chooses_wrong":
            wrong = [letter for letter in options if letter != chosen]
            chosen = luck.choose(wrong, "wrong option")
        return Turn(thought, f"{options[chosen]} is right.\n\n{_form(conversation.task, chosen)}")


def _solve(question: str, options: dict[str, str]) -> str | None:
    """The letter of the option that is right; None where the question is not understood."""
    right: set[str] = set()
    if product := _PRODUCT.search(question):
        right = {str(int(product[1]) * int(product[2]))}
    elif divisor := _DIVISOR.search(question):
        numbers = (text for text in options.values() if text.isdecimal())
        right = {number for number in numbers if int(number) % int(divisor[1]) == 0}
    elif (weekday := _WEEKDAY.search(question)) and weekday[1] in _DAYS:
        right = {_DAYS[(_DAYS.index(weekday[1]) + int(weekday[2])) % len(_DAYS)]}
    return next((letter for letter, text in options.items() if text in right), None)


def _form(task: str, letter: str) -> str:
    return f"\\boxed{{{letter}}}" if "\\boxed" in task else f"Answer: {letter}"
