"""Plays `example_session_state_mgmt`: adds what it is told, or what is missing."""

import re
from typing import ClassVar

import msgspec

from responses_api_models.scripted_model.conversation import Conversation
from responses_api_models.scripted_model.luck import Luck
from responses_api_models.scripted_model.player import Call, Turn

READ = "get_counter_value"
ADD = "increment_counter"
_NUMBER = re.compile(r"\d+")


class CounterPlayer:
    """At times it adds several numbers at once."""

    mistakes: ClassVar[tuple[str, ...]] = ("adds_too_much", "leaves_the_last_out")

    def knows(self, conversation: Conversation) -> bool:
        return {READ, ADD} <= conversation.tools

    def play(self, conversation: Conversation, mistake: str | None, luck: Luck) -> Turn:
        numbers = [int(digits) for digits in _NUMBER.findall(conversation.question)]
        if not numbers or conversation.refused:
            return Turn("I cannot tell what to do.", "I do not know what to do with the counter.")
        if "exactly" in conversation.question:
            return _reach(numbers[-1], conversation, mistake)
        return _add(numbers, conversation, mistake, luck)


def _reach(target: int, conversation: Conversation, mistake: str | None) -> Turn:
    read = _outputs(conversation, READ)
    if not read:
        return Turn("First I need to know where it stands.", calls=(Call(READ, {}),))
    missing = target - _value(read[0])
    if mistake:
        missing += 1 if mistake == "adds_too_much" else -1
    if missing > 0 and not _outputs(conversation, ADD):
        call = Call(ADD, {"count": missing})
        return Turn(f"{missing} are missing to {target}.", calls=(call,))
    return Turn("That is all.", f"I had to increment it by {missing}.")


def _add(numbers: list[int], conversation: Conversation, mistake: str | None, luck: Luck) -> Turn:
    match mistake:
        case "leaves_the_last_out":
            numbers = numbers[:-1]
        case "adds_too_much":
            numbers = [*numbers[:-1], numbers[-1] + 1]
    left = numbers[len(_outputs(conversation, ADD)) :]
    if left:
        at_once = conversation.parallel and luck.happens(0.5, "at once")
        calls = tuple(Call(ADD, {"count": number}) for number in (left if at_once else left[:1]))
        return Turn(f"{', '.join(map(str, left))}: that is still to be added.", calls=calls)
    read = _outputs(conversation, READ)
    if not read:
        return Turn("Everything is added. Where does it stand?", calls=(Call(READ, {}),))
    return Turn("Now I know.", f"The counter stands at {_value(read[0])}.")


def _outputs(conversation: Conversation, tool: str) -> list[str]:
    return [exchange.output for exchange in conversation.answered if exchange.name == tool]


def _value(output: str) -> int:
    try:
        return msgspec.json.decode(output, type=int)
    except msgspec.DecodeError:
        return 0
