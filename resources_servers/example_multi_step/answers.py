"""Reading the final answer: the last line `Answer: first; second; …`."""

import re
from collections.abc import Sequence

# Repetitions are bounded: an answer may be a megabyte of blanks.
_LINE = re.compile(r"^[^\w\n]{0,8}answers?[^\w\n:]{0,8}:(.*)$", re.IGNORECASE | re.MULTILINE)
_NUMBERING = re.compile(r"^\(?\d{1,2}[.):]\s+")


def read_answers(text: str) -> list[str]:
    """The entries of the last answer line; none where there is no such line."""
    lines = _LINE.findall(text)
    return [entry.strip() for entry in lines[-1].split(";") if entry.strip()] if lines else []


def found_values(expected: Sequence[str], answers: Sequence[str]) -> list[str]:
    """The expected values that are among the answers, in whatever order.

    More answers than were asked for are a list of guesses, and none of them counts.
    """
    if len(answers) > len(expected):
        return []
    given = {_plain(answer) for answer in answers}
    return [value for value in expected if _plain(value) in given]


def _plain(entry: str) -> str:
    """Without numbering, emphasis, quotes, a leading article and differences in case."""
    bare = _NUMBERING.sub("", entry.strip(" \t*_`\"'")).strip(" \t*_`\"'.").casefold()
    return " ".join(bare.removeprefix("the ").split())
