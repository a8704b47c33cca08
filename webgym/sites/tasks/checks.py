"""Checks: the facts that must hold at the end of a task, as data.

Each check states one fact. Some look at the answer, some at the state of the session, which is
JSON: a path such as `shop.orders.0.details.city` leads to a part of it. Text is compared without
regard to case, space and typography. Of an object only the named fields are compared.
"""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import msgspec

LONGEST_ANSWER = 1_000
MOST_NUMBERS = 8
"""An answer with more numbers is rejected, because it would match by chance."""

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
    """The answer has the text that the state has at a path, such as the number of an order."""

    fact: str
    path: str


class Is(msgspec.Struct, frozen=True, tag="is", tag_field="check"):
    """The state has this value at a path."""

    fact: str
    path: str
    value: object


class Has(msgspec.Struct, frozen=True, tag="has", tag_field="check"):
    """A list in the state has a member like this."""

    fact: str
    path: str
    like: object


class HasCount(msgspec.Struct, frozen=True, tag="counts", tag_field="check"):
    """A list in the state has this number of members."""

    fact: str
    path: str
    number: int


AnswerCheck: TypeAlias = Says | SaysNumber
StateCheck: TypeAlias = Tells | Is | Has | HasCount
Check: TypeAlias = AnswerCheck | StateCheck


def why_not(check: Check, answer: str | None, state: object) -> str | None:
    """Why the fact does not hold; None if it holds."""
    match check:
        case Says() | SaysNumber():
            return _why_not_in_answer(check, answer)
        case Tells(path=path):
            expected = at_path(state, path)
            if not isinstance(expected, str) or not expected:
                return f"the session state has no text at {path}"
            return _why_not_in_answer(Says(check.fact, (expected,)), answer)
        case Is(path=path, value=value):
            found = at_path(state, path)
            return None if is_like(found, value) else f"{path} is {_short(found)}"
        case Has() | HasCount():
            return _why_not_in_list(check, state)


def at_path(state: object, path: str) -> object:
    """The value at a path, or None."""
    found = state
    for part in path.split("."):
        if isinstance(found, dict):
            found = found.get(part)
        elif isinstance(found, list) and part.isdecimal() and int(part) < len(found):
            found = found[int(part)]
        else:
            return None
    return found


def is_like(found: object, wanted: object) -> bool:
    """Whether a value equals the wanted one; of an object, only the wanted fields count."""
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
    """The text without differences of case, space and typography."""
    plain = unicodedata.normalize("NFKC", text).translate(_TYPOGRAPHY)
    return " ".join(plain.casefold().split())


def numbers_in(text: str) -> set[float]:
    """The numbers in a text, in digits or, up to twelve, in words."""
    plain = normal(text)
    digits = {float(each.replace(",", "")) for each in _NUMBER.findall(plain)}
    return digits | {_WORDS[each] for each in re.findall(r"\w+", plain) if each in _WORDS}


def _why_not_in_answer(check: AnswerCheck, answer: str | None) -> str | None:
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


def _why_not_in_list(check: Has | HasCount, state: object) -> str | None:
    found = at_path(state, check.path)
    if not isinstance(found, list):
        return f"{check.path} is not a list"
    match check:
        case Has(like=like):
            hit = any(is_like(each, like) for each in found)
            return None if hit else f"{check.path} has no member like {_short(like)}"
        case HasCount(number=number):
            return None if len(found) == number else f"{check.path} has {len(found)} members"


def _short(value: object) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 120 else f"{text[:120]}…"
