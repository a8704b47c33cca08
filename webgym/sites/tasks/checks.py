"""What must be true at the end of a task, as data.

Each check states one fact. Some look at the answer, some at the truth about the visitor, which is
JSON: a path such as `shop.orders.0.details.city` leads to a part of it. Text is compared without
regard to case, space and typography. What is expected of an object are only the fields named.
"""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import msgspec

LONGEST_ANSWER = 1_000
MOST_NUMBERS = 8
"""An answer that says everything says nothing."""

_NUMBER = re.compile(r"(?<![\w.])-?\d{1,3}(?:,\d{3})+(?:\.\d+)?|(?<![\w.])-?\d+(?:\.\d+)?")
_NUMERALS = (
    "zero", "one", "two", "three", "four", "five", "six",
    "seven", "eight", "nine", "ten", "eleven", "twelve",
)  # fmt: skip
_WORDS = {word: float(number) for number, word in enumerate(_NUMERALS)}
_TYPOGRAPHY = str.maketrans({"’": "'", "‘": "'", "“": '"', "”": '"', "–": "-", "—": "-"})  # noqa: RUF001


class Says(msgspec.Struct, frozen=True, tag="says", tag_field="check", omit_defaults=True):
    """The answer has one of the texts, as whole words, and none of the others."""

    fact: str
    texts: tuple[str, ...]
    but_not: tuple[str, ...] = ()


class SaysNumber(msgspec.Struct, frozen=True, tag="says_number", tag_field="check"):
    """The answer has this number."""

    fact: str
    number: float


class Tells(msgspec.Struct, frozen=True, tag="tells", tag_field="check"):
    """The answer has what the truth has at a path, such as the number of the order."""

    fact: str
    path: str


class Is(msgspec.Struct, frozen=True, tag="is", tag_field="check"):
    """The truth has this at a path."""

    fact: str
    path: str
    value: object


class Has(msgspec.Struct, frozen=True, tag="has", tag_field="check"):
    """A list of the truth has a member like this."""

    fact: str
    path: str
    like: object


class Counts(msgspec.Struct, frozen=True, tag="counts", tag_field="check"):
    """A list of the truth has so many members in all."""

    fact: str
    path: str
    number: int


AnswerCheck: TypeAlias = Says | SaysNumber
StateCheck: TypeAlias = Tells | Is | Has | Counts
Check: TypeAlias = AnswerCheck | StateCheck


def failure_of(check: Check, answer: str | None, truth: object) -> str | None:
    """Why the fact does not hold; None where it does."""
    match check:
        case Says() | SaysNumber():
            return _answer_failure(check, answer)
        case Tells(path=path):
            told = at_path(truth, path)
            if not isinstance(told, str) or not told:
                return f"there is nothing at {path} to tell"
            return _answer_failure(Says(check.fact, (told,)), answer)
        case Is(path=path, value=value):
            found = at_path(truth, path)
            return None if is_like(found, value) else f"{path} is {_short(found)}"
        case Has() | Counts():
            return _list_failure(check, truth)


def at_path(truth: object, path: str) -> object:
    """What is at a path, or None."""
    found = truth
    for part in path.split("."):
        if isinstance(found, dict):
            found = found.get(part)
        elif isinstance(found, list) and part.isdecimal() and int(part) < len(found):
            found = found[int(part)]
        else:
            return None
    return found


def is_like(found: object, wanted: object) -> bool:
    """Whether it is what is wanted; of an object, only the fields wanted count."""
    if isinstance(wanted, Mapping):
        return isinstance(found, Mapping) and all(
            name in found and is_like(found[name], value) for name, value in wanted.items()
        )
    if isinstance(wanted, str):
        return isinstance(found, str) and normal(found) == normal(wanted)
    if isinstance(wanted, Sequence):
        return (
            isinstance(found, list)
            and len(found) == len(wanted)
            and all(map(is_like, found, wanted))
        )
    return type(found) is type(wanted) and found == wanted


def normal(text: str) -> str:
    """The text without what does not matter."""
    plain = unicodedata.normalize("NFKC", text).translate(_TYPOGRAPHY)
    return " ".join(plain.casefold().split())


def numbers_in(text: str) -> set[float]:
    """The numbers that a text has, in digits or, if they are small, in words."""
    plain = normal(text)
    digits = {float(each.replace(",", "")) for each in _NUMBER.findall(plain)}
    return digits | {_WORDS[each] for each in re.findall(r"\w+", plain) if each in _WORDS}


def _answer_failure(check: AnswerCheck, answer: str | None) -> str | None:
    if not answer or not answer.strip():
        return "there is no answer"
    if len(answer) > LONGEST_ANSWER:
        return f"the answer has {len(answer)} characters, more than {LONGEST_ANSWER}"
    match check:
        case Says(texts=texts, but_not=but_not):
            if not any(_mentions(answer, text) for text in texts):
                return f"the answer does not say {' or '.join(map(repr, texts))}"
            wrong = [text for text in but_not if _mentions(answer, text)]
            return f"the answer also says {wrong[0]!r}" if wrong else None
        case SaysNumber(number=number):
            found = numbers_in(answer)
            if len(found) > MOST_NUMBERS:
                return f"the answer has {len(found)} numbers, more than {MOST_NUMBERS}"
            hit = any(abs(each - number) < 1e-9 for each in found)
            return None if hit else f"the answer does not have the number {number:g}"


def _mentions(answer: str, text: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(normal(text))}(?!\w)", normal(answer)) is not None


def _list_failure(check: Has | Counts, truth: object) -> str | None:
    found = at_path(truth, check.path)
    if not isinstance(found, list):
        return f"{check.path} is no list"
    match check:
        case Has(like=like):
            hit = any(is_like(each, like) for each in found)
            return None if hit else f"{check.path} has none like {_short(like)}"
        case Counts(number=number):
            return None if len(found) == number else f"{check.path} has {len(found)} in all"


def _short(value: object) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 120 else f"{text[:120]}…"
