"""Solvers of tasks with tools: `example_multi_step`, `example_single_tool_call` and the counter.

*Documents.* Each question is about a name. The first question contains its name; the name of each
further question is the answer to the question before. The solver searches for the name, reads the
answer in the passages that were found, and continues.
"""

import re
from collections.abc import Iterator
from typing import ClassVar, NamedTuple

import msgspec

from responses_api_models.scripted_model.solver import (
    PlannedCall,
    ScriptedRequest,
    ScriptedTurn,
    SeededChoices,
)
from rollgym.records.decoding import decode_json

SEARCH = "search_document"
MAX_SEARCHES = 2
_QUESTION = re.compile(r"^\d+\. (.+\?)$", re.MULTILINE)
_PASSAGE = re.compile(r"^Found at \d+: (.+)$", re.MULTILINE)
_NAME = re.compile(r"(?!^)\b[A-Z]\w*(?: [A-Z]\w*)*|\d+(?:-\d+)+")
_REFERENCE = re.compile(r"\bthat \w+")
_WORD = re.compile(r"[a-z]{4,}")


class Lookup(NamedTuple):
    """A question, the name that it is about, and its answer if that was found."""

    question: str
    subject: str
    answer: str | None


class DocumentSolver:
    """Solves `example_multi_step`. Some turns make two searches."""

    mistakes: ClassVar[tuple[str, ...]] = ("forgets_the_form", "misreads", "stops_early")

    def recognizes(self, request: ScriptedRequest) -> bool:
        return SEARCH in request.tools

    def next_turn(
        self, request: ScriptedRequest, mistake: str | None, choices: SeededChoices
    ) -> ScriptedTurn:
        questions = _QUESTION.findall(request.question)
        if not questions:
            return ScriptedTurn("There is no list of questions.", "What shall I look for?")
        passages = [
            passage
            for exchange in request.answered
            for passage in _PASSAGE.findall(exchange.output)
        ]
        lookups = list(_look_up(questions, passages))
        last, known = lookups[-1], [lookup.answer for lookup in lookups if lookup.answer]
        enough = len(questions)
        if mistake == "stops_early":
            enough = choices.choose(range(len(questions)), "enough")
        tried = sum(last.subject in exchange.arguments for exchange in request.exchanges)
        if len(known) < enough and tried < MAX_SEARCHES:
            return _search(last, request, choices)
        known = known[:enough]
        if known and mistake == "misreads":
            place = choices.choose(range(len(known)), "misread")
            known[place] = _misread(known[place])
        return _answer(known, in_form=mistake != "forgets_the_form")


def _look_up(questions: list[str], passages: list[str]) -> Iterator[Lookup]:
    """The questions up to the first that has no answer yet. A passage answers one question."""
    unused, subject = list(dict.fromkeys(passages)), ""
    for question in questions:
        subject = subject or _names(question)[-1]
        passage = _best(question, [each for each in unused if subject in each])
        answer = passage and _answer_in(passage, subject)
        yield Lookup(question, subject, answer)
        if not passage or not answer:
            return
        unused.remove(passage)
        subject = answer


def _best(question: str, passages: list[str]) -> str | None:
    topic = set(_WORD.findall(question))
    return max(passages, key=lambda passage: len(topic & set(_WORD.findall(passage))), default=None)


def _names(text: str) -> list[str]:
    """Names and codes in a text. The first word does not count as a name."""
    return _NAME.findall(text) or [text]


def _answer_in(passage: str, subject: str) -> str | None:
    return next((name for name in reversed(_names(passage)) if name != subject), None)


def _search(lookup: Lookup, request: ScriptedRequest, choices: SeededChoices) -> ScriptedTurn:
    query = _REFERENCE.sub(lookup.subject, lookup.question).rstrip("?")
    calls = [
        PlannedCall(
            SEARCH, {"query": query, "max_results": choices.choose((2, 3, 5), "results", query)}
        )
    ]
    if request.parallel and choices.happens(0.25, "two ways", query):
        calls.append(PlannedCall(SEARCH, {"query": lookup.subject}))
    return ScriptedTurn(f"What does the document say about {lookup.subject}?", calls=tuple(calls))


def _misread(value: str) -> str:
    """Swap the last two characters; if they are equal, repeat the last one."""
    swapped = value[:-2] + value[:-3:-1]
    return swapped if swapped != value else value + value[-1]


def _answer(known: list[str], *, in_form: bool) -> ScriptedTurn:
    thought = f"I know {len(known)} of the answers."
    if not known:
        return ScriptedTurn(thought, "I could not find anything in the document.")
    if not in_form:
        return ScriptedTurn(thought, f"The document mentions {', '.join(known)}.")
    found = f"I searched the document and found {len(known)} of the answers."
    return ScriptedTurn(thought, f"{found}\n\nAnswer: {'; '.join(known)}")


WEATHER = "get_weather"
_PLACE = re.compile(r"\b(?:in|to|with) ([A-Z][a-z]+(?: [A-Z][a-z]+)*)")


class _Report(msgspec.Struct):
    city: str
    condition: str
    temperature_celsius: int


class WeatherSolver:
    """Solves `example_single_tool_call`. Some turns ask for two cities, with two calls."""

    mistakes: ClassVar[tuple[str, ...]] = ("makes_it_up", "misreads", "wrong_city")

    def recognizes(self, request: ScriptedRequest) -> bool:
        return WEATHER in request.tools

    def next_turn(
        self, request: ScriptedRequest, mistake: str | None, choices: SeededChoices
    ) -> ScriptedTurn:
        places = list(dict.fromkeys(reversed(_PLACE.findall(request.question))))
        if not places:
            return ScriptedTurn("There is no city in the question.", "Which city do you mean?")
        if mistake == "makes_it_up":
            return ScriptedTurn(
                "I can guess that.", f"It is sunny in {places[0]}, at 21 degrees Celsius."
            )
        if mistake == "wrong_city":
            places = places[1:] or ["Atlantis"]
        if request.answered:
            return _tell(request.answered[0].output, off=5 if mistake == "misreads" else 0)
        if request.refused:
            return ScriptedTurn(
                "There is no report.", f"I could not find the weather in {places[0]}."
            )
        compares = request.parallel and choices.happens(0.4, "compares")
        asked = places[:2] if compares else places[:1]
        calls = tuple(PlannedCall(WEATHER, {"city": place}) for place in asked)
        return ScriptedTurn(f"I need the weather in {' and '.join(asked)}.", calls=calls)


def _tell(output: str, off: int) -> ScriptedTurn:
    try:
        report = decode_json(output, _Report)
    except msgspec.DecodeError:
        return ScriptedTurn("I do not know this kind of report.", f"The report says: {output}")
    city, temperature = report.city, report.temperature_celsius + off
    return ScriptedTurn(
        f"The report for {city} has arrived.",
        f"In {city} it is {report.condition}, at {temperature} degrees Celsius.",
    )


READ = "get_counter_value"
ADD = "increment_counter"
_NUMBER = re.compile(r"\d+")


class CounterSolver:
    """Solves `example_session_state_mgmt`. Some turns add several numbers, with several calls."""

    mistakes: ClassVar[tuple[str, ...]] = ("adds_too_much", "leaves_the_last_out")

    def recognizes(self, request: ScriptedRequest) -> bool:
        return {READ, ADD} <= request.tools

    def next_turn(
        self, request: ScriptedRequest, mistake: str | None, choices: SeededChoices
    ) -> ScriptedTurn:
        numbers = [int(digits) for digits in _NUMBER.findall(request.question)]
        if not numbers or request.refused:
            return ScriptedTurn(
                "I cannot tell what to do.", "I do not know what to do with the counter."
            )
        if "exactly" in request.question:
            return _reach(numbers[-1], request, mistake)
        return _add(numbers, request, mistake, choices)


def _reach(target: int, request: ScriptedRequest, mistake: str | None) -> ScriptedTurn:
    read = _outputs(request, READ)
    if not read:
        return ScriptedTurn("First I need to know where it stands.", calls=(PlannedCall(READ, {}),))
    missing = target - _value(read[0])
    if mistake:
        missing += 1 if mistake == "adds_too_much" else -1
    if missing > 0 and not _outputs(request, ADD):
        call = PlannedCall(ADD, {"count": missing})
        return ScriptedTurn(f"{missing} are missing to {target}.", calls=(call,))
    return ScriptedTurn("That is all.", f"I had to increment it by {missing}.")


def _add(
    numbers: list[int], request: ScriptedRequest, mistake: str | None, choices: SeededChoices
) -> ScriptedTurn:
    match mistake:
        case "leaves_the_last_out":
            numbers = numbers[:-1]
        case "adds_too_much":
            numbers = [*numbers[:-1], numbers[-1] + 1]
    left = numbers[len(_outputs(request, ADD)) :]
    if left:
        at_once = request.parallel and choices.happens(0.5, "at once")
        calls = tuple(
            PlannedCall(ADD, {"count": number}) for number in (left if at_once else left[:1])
        )
        return ScriptedTurn(f"{', '.join(map(str, left))}: that is still to be added.", calls=calls)
    read = _outputs(request, READ)
    if not read:
        return ScriptedTurn(
            "Everything is added. Where does it stand?", calls=(PlannedCall(READ, {}),)
        )
    return ScriptedTurn("Now I know.", f"The counter stands at {_value(read[0])}.")


def _outputs(request: ScriptedRequest, tool: str) -> list[str]:
    return [exchange.output for exchange in request.answered if exchange.name == tool]


def _value(output: str) -> int:
    try:
        return decode_json(output, int)
    except msgspec.DecodeError:
        return 0
