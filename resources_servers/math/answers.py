r"""Where the answer is in a response, and how to read it.

A box (`\boxed{…}`) is preferred, then the last line that says "answer: …" or "answer is …", then
whatever LaTeX or number comes last, which is for the comparison to find. An expression is read as
a whole. A phrase, such as "3 apples", is searched for its LaTeX or number.
"""

import re
from enum import StrEnum
from typing import Literal, NamedTuple

from rollgym.servers.final_answer import last_boxed, without_thinking

TAIL = 2_000
# Blanks are collapsed first and repetitions bounded: a line may be a megabyte of anything.
_ANSWER = re.compile(
    r"\banswer(?: is)?[*_]{0,3} ?[:=][*_]{0,3} ?(?P<colon>.+)|\banswer is (?P<verb>.+)",
    re.IGNORECASE,
)
_COMMAND = re.compile(r"\\[A-Za-z]+")
_WORD = re.compile(r"[A-Za-z]{3}")
_FUNCTIONS = re.compile(r"\b(?:sin|cos|tan|cot|sec|csc|log|exp|sqrt|max|min|mod|inf|pi)\b")
_FORMULA = re.compile(r"\$|\\\(|\\\[")


class Source(StrEnum):
    """Where an answer was found."""

    BOX = "box"
    LINE = "line"
    END = "end"


class FinalAnswer(NamedTuple):
    """The text of an answer, where it stood, and whether it is an expression as a whole."""

    text: str
    source: Source
    reading: Literal["expression", "text"]


def find_answer(response: str) -> FinalAnswer | None:
    """The final answer; None of a response that says nothing."""
    text = without_thinking(response)
    boxed = last_boxed(text)
    if boxed:
        return FinalAnswer(boxed, Source.BOX, "expression")
    line = _answer_line(text)
    if line:
        return FinalAnswer(line, Source.LINE, "text" if _is_phrase(line) else "expression")
    end = text[-TAIL:].strip()
    return FinalAnswer(end, Source.END, "text") if end else None


def _answer_line(text: str) -> str | None:
    for line in reversed(text.splitlines()):
        found = _ANSWER.search(" ".join(line.split()))
        if found:
            answer: str = found["colon"] or found["verb"]
            return answer.strip(" *_")
    return None


def _is_phrase(line: str) -> bool:
    """Whether there are words in it, or a formula marked as such."""
    plain = _FUNCTIONS.sub("", _COMMAND.sub("", line))
    return bool(_FORMULA.search(line) or _WORD.search(plain))
