r"""Which option an answer chose.

A grading mode says where the choice must stand: in the last `\boxed{…}` or after the last
`Answer:`. What stands there must be one option's letter; the lenient modes also take it in brackets
or with that option's text, and the text of exactly one option. Everything else is no choice:
nothing is guessed.
"""

import re
from collections.abc import Mapping
from enum import StrEnum

from rollgym.servers.final_answer import last_boxed, without_thinking

# Repetitions side by side are bounded: an answer may be a megabyte of blanks.
_ANSWER_COLON = re.compile(r"\banswer[*_ ]{0,4}(?:is)?[*_ ]{0,4}:[*_]{0,4}", re.IGNORECASE)
_COMMAND = re.compile(r"\\(?:text|textbf|textit|mathrm|mathbf|mathit|mbox)\s*\{([^{}]*)\}")
_LETTER = re.compile(r"\(?([A-Za-z])\)?")
_LABELLED = re.compile(r"\(?([A-Za-z])(?:\)|[.:]\)?)\s*(\S.*)", re.DOTALL)
_DECORATION = " \t\r\n*_`$\"'"


class GradingMode(StrEnum):
    """Where the choice must stand, and how strictly it is read."""

    STRICT_SINGLE_LETTER_BOXED = "strict_single_letter_boxed"
    LENIENT_BOXED = "lenient_boxed"
    LENIENT_ANSWER_COLON = "lenient_answer_colon"


def extract_choice(text: str, options: Mapping[str, str], mode: GradingMode) -> str | None:
    """The letter of the option that was chosen; None where the answer cannot be read."""
    answer = without_thinking(text)
    match mode:
        case GradingMode.STRICT_SINGLE_LETTER_BOXED:
            letter = last_boxed(answer)
            return letter if letter in options else None
        case GradingMode.LENIENT_BOXED:
            return _choice(last_boxed(answer), options)
        case GradingMode.LENIENT_ANSWER_COLON:
            return _choice(_after_colon(answer), options)


def _after_colon(text: str) -> str | None:
    """The line that follows the last `Answer:`; what is in its box, if it has one."""
    begins = [match.end() for match in _ANSWER_COLON.finditer(text)]
    if not begins:
        return None
    line = text[begins[-1] :].lstrip().partition("\n")[0]
    return last_boxed(line) or line


def _choice(found: str | None, options: Mapping[str, str]) -> str | None:
    if found is None:
        return None
    content = _COMMAND.sub(r"\1", found).strip(_DECORATION).removesuffix(".").strip(_DECORATION)
    alone, labelled = _LETTER.fullmatch(content), _LABELLED.fullmatch(content)
    if alone and alone[1].upper() in options:
        return alone[1].upper()
    if labelled and labelled[1].upper() in options:
        chosen = labelled[1].upper()
        return chosen if _plain(labelled[2]) == _plain(options[chosen]) else None
    same = [letter for letter, text in options.items() if _plain(text) == _plain(content)]
    return same[0] if len(same) == 1 else None


def _plain(text: str) -> str:
    return " ".join(text.casefold().split()).strip(_DECORATION + ".")
