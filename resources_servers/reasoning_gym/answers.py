r"""Where the answer is in a response: `<answer>…</answer>`, else `\boxed{…}`, else the last line.

A tag that is not closed counts to the end of the text: many serve models with the closing tag as
the place to stop.
"""

from enum import StrEnum
from typing import NamedTuple

from rollgym.servers.final_answer import last_boxed, without_thinking

OPENING = "<answer>"
CLOSING = "</answer>"


class Source(StrEnum):
    """Where an answer was found."""

    TAG = "tag"
    BOX = "box"
    LINE = "line"


class FinalAnswer(NamedTuple):
    """The text of an answer, and where it stood."""

    text: str
    source: Source


def find_answer(response: str) -> FinalAnswer | None:
    """The final answer; None of a response that says nothing."""
    text = without_thinking(response)
    _, tag, tagged = text.rpartition(OPENING)
    if tag:
        return _found(tagged.partition(CLOSING)[0], Source.TAG)
    boxed = last_boxed(text)
    if boxed is not None:
        return _found(boxed, Source.BOX)
    return _found(text.rstrip().rpartition("\n")[2], Source.LINE)


def _found(text: str, source: Source) -> FinalAnswer | None:
    return FinalAnswer(text.strip(), source) if text.strip() else None
