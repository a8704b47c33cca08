"""Plays `example_single_tool_call`: asks for the weather of the last city that is named."""

import re
from typing import ClassVar

import msgspec

from responses_api_models.scripted_model.conversation import Conversation
from responses_api_models.scripted_model.luck import Luck
from responses_api_models.scripted_model.player import Call, Turn

TOOL = "get_weather"
_PLACE = re.compile(r"\b(?:in|to|with) ([A-Z][a-z]+(?: [A-Z][a-z]+)*)")


class _Report(msgspec.Struct):
    city: str
    condition: str
    temperature_celsius: int


class WeatherPlayer:
    """At times it compares two cities, with two calls at once."""

    mistakes: ClassVar[tuple[str, ...]] = ("makes_it_up", "misreads", "wrong_city")

    def knows(self, conversation: Conversation) -> bool:
        return TOOL in conversation.tools

    def play(self, conversation: Conversation, mistake: str | None, luck: Luck) -> Turn:
        places = list(dict.fromkeys(reversed(_PLACE.findall(conversation.question))))
        if not places:
            return Turn("There is no city in the question.", "Which city do you mean?")
        if mistake == "makes_it_up":
            return Turn("I can guess that.", f"It is sunny in {places[0]}, at 21 degrees Celsius.")
        if mistake == "wrong_city":
            places = places[1:] or ["Atlantis"]
        if conversation.answered:
            return _tell(conversation.answered[0].output, off=5 if mistake == "misreads" else 0)
        if conversation.refused:
            return Turn("There is no report.", f"I could not find the weather in {places[0]}.")
        compares = conversation.parallel and luck.happens(0.4, "compares")
        asked = places[:2] if compares else places[:1]
        calls = tuple(Call(TOOL, {"city": place}) for place in asked)
        return Turn(f"I need the weather in {' and '.join(asked)}.", calls=calls)


def _tell(output: str, off: int) -> Turn:
    try:
        report = msgspec.json.decode(output, type=_Report)
    except msgspec.DecodeError:
        return Turn("I do not know this kind of report.", f"The report says: {output}")
    city, temperature = report.city, report.temperature_celsius + off
    return Turn(
        f"The report for {city} has arrived.",
        f"In {city} it is {report.condition}, at {temperature} degrees Celsius.",
    )
