"""Plays `example_multi_step`: searches for a name, reads the next name from what it finds, goes on.

Each question is about a name: the first one's stands in it, and each further one's is the answer to
the question before. What the player knows is read from the passages found so far.
"""

import re
from collections.abc import Iterator
from typing import ClassVar, NamedTuple

from responses_api_models.scripted_model.conversation import Conversation
from responses_api_models.scripted_model.luck import Luck
from responses_api_models.scripted_model.player import Call, Turn

TOOL = "search_document"
PATIENCE = 2
_QUESTION = re.compile(r"^\d+\. (.+\?)$", re.MULTILINE)
_PASSAGE = re.compile(r"^Found at \d+: (.+)$", re.MULTILINE)
_NAME = re.compile(r"(?!^)\b[A-Z]\w*(?: [A-Z]\w*)*|\d+(?:-\d+)+")
_REFERENCE = re.compile(r"\bthat \w+")
_WORD = re.compile(r"[a-z]{4,}")


class Lookup(NamedTuple):
    """A question with the name that it is about, and its answer where that was found."""

    question: str
    subject: str
    answer: str | None


class DocumentPlayer:
    """At times it searches in two ways at once."""

    mistakes: ClassVar[tuple[str, ...]] = ("forgets_the_form", "misreads", "stops_early")

    def knows(self, conversation: Conversation) -> bool:
        return TOOL in conversation.tools

    def play(self, conversation: Conversation, mistake: str | None, luck: Luck) -> Turn:
        questions = _QUESTION.findall(conversation.question)
        if not questions:
            return Turn("There is no list of questions.", "What shall I look for?")
        passages = [
            passage
            for exchange in conversation.answered
            for passage in _PASSAGE.findall(exchange.output)
        ]
        lookups = list(_look_up(questions, passages))
        last, known = lookups[-1], [lookup.answer for lookup in lookups if lookup.answer]
        enough = len(questions)
        if mistake == "stops_early":
            enough = luck.choose(range(len(questions)), "enough")
        tried = sum(last.subject in exchange.arguments for exchange in conversation.exchanges)
        if len(known) < enough and tried < PATIENCE:
            return _search(last, conversation, luck)
        known = known[:enough]
        if known and mistake == "misreads":
            place = luck.choose(range(len(known)), "misread")
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
    """Names and codes, but no word only because it is the first."""
    return _NAME.findall(text) or [text]


def _answer_in(passage: str, subject: str) -> str | None:
    return next((name for name in reversed(_names(passage)) if name != subject), None)


def _search(lookup: Lookup, conversation: Conversation, luck: Luck) -> Turn:
    query = _REFERENCE.sub(lookup.subject, lookup.question).rstrip("?")
    calls = [Call(TOOL, {"query": query, "max_results": luck.choose((2, 3, 5), "results", query)})]
    if conversation.parallel and luck.happens(0.25, "two ways", query):
        calls.append(Call(TOOL, {"query": lookup.subject}))
    return Turn(f"What does the document say about {lookup.subject}?", calls=tuple(calls))


def _misread(value: str) -> str:
    """With two characters in each other's place, or the last one twice where both are equal."""
    swapped = value[:-2] + value[:-3:-1]
    return swapped if swapped != value else value + value[-1]


def _answer(known: list[str], *, in_form: bool) -> Turn:
    thought = f"I know {len(known)} of the answers."
    if not known:
        return Turn(thought, "I could not find anything in the document.")
    if not in_form:
        return Turn(thought, f"The document mentions {', '.join(known)}.")
    found = f"I searched the document and found {len(known)} of the answers."
    return Turn(thought, f"{found}\n\nAnswer: {'; '.join(known)}")
