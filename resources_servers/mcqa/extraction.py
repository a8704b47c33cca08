r"""The option that an answer chooses, read as NeMo Gym reads it.

*Modes.* A grading mode says where the choice is. `strict_single_letter_boxed` and `lenient_boxed`
read the last `\boxed{…}`, `lenient_answer_colon` the first `Answer: …`, and
`lenient_answer_colon_md` the last such line that names one option, with Markdown around it. The
README has a table of examples, which a test checks.

*Differences.* Reasoning is not read (see `final_answer`), and in `lenient_boxed` a text that equals
one option is that option, even if the text of another option is a part of it.

*Cost.* The event loop waits, so an answer is read in linear time and only up to some limits.
"""

import re
import unicodedata
from collections import deque
from collections.abc import Iterator, Mapping
from enum import StrEnum
from itertools import pairwise

from rollgym.servers.final_answer import last_boxed

MOST_ANSWER_LINES = 20
LONGEST_ANSWER_LINE = 1_000
MOST_WRAPPERS = 8
LONGEST_NORMALIZED = 20_000
"""Normal forms of Unicode are slow to compute, and up to 18 times as long."""

_BOX = r"\boxed{"
_WRAPPER = r"\text{"
_ONLY_LETTER = re.compile(r"[^A-Za-z]*+([A-Z])[^A-Za-z]*+")
_LABEL = re.compile(r"\s*+([A-Z])\s*+[:).\-]")
_ANSWER = re.compile(r"answer\s*+:\s*+(.++)", re.IGNORECASE)
_MARKDOWN_ANSWER = re.compile(r"answer[*_]{0,2}\s*+:[*_\s]{0,2}(.++)", re.IGNORECASE)
_LEADING_LETTER = re.compile(r"([A-Za-z])(?![A-Za-z0-9])")
_STANDALONE_LETTER = re.compile(r"(?<![A-Za-z])[A-Za-z](?![A-Za-z])")
_CAPITAL = re.compile(r"\b[A-Z]\b")
_SEPARATOR = re.compile(r"\s*+[/|&,;]\s*+|\s++(?:or|and)\s++|\s++", re.IGNORECASE)
_DECORATION = "*_` \t\n\r.,;:"
_LABEL_DECORATION = " \t*_`#~-"
_BEFORE_LETTER = " \t*_`#~-[({"
_AFTER_LETTER = " \t*_`#~-])}.!?,;:\u0964\u3002"  # also the full stops of Hindi and Chinese
_LONGEST_LABEL = 80
# The first four letters of the Arabic and the Bengali alphabet, as options are named there.
_LOCAL_LETTERS = str.maketrans(dict(zip("أبجدঅবডঢ", (" A", " B", " C", " D") * 2, strict=True)))


class GradingMode(StrEnum):
    """Where the choice is, and how it is read."""

    STRICT_SINGLE_LETTER_BOXED = "strict_single_letter_boxed"
    LENIENT_BOXED = "lenient_boxed"
    LENIENT_ANSWER_COLON = "lenient_answer_colon"
    LENIENT_ANSWER_COLON_MD = "lenient_answer_colon_md"


def extract_choice(
    answer: str, options: Mapping[str, str], mode: GradingMode, prefix: str = ""
) -> str | None:
    """The letter of the chosen option; None if the answer does not choose one.

    Args:
        answer: The answer without reasoning.
        options: The texts of the options by letter.
        mode: The grading mode.
        prefix: Words that stand before the choice like `Answer:`, in any language; only for
            `lenient_answer_colon_md`.
    """
    match mode:
        case GradingMode.STRICT_SINGLE_LETTER_BOXED:
            return _letter_in_box(answer, options)
        case GradingMode.LENIENT_BOXED:
            return _letter_in_box(answer, options) or _text_in_box(answer, options)
        case GradingMode.LENIENT_ANSWER_COLON:
            return _after_colon(answer, options)
        case GradingMode.LENIENT_ANSWER_COLON_MD:
            found = _in_answer_lines(answer, options, prefix) or _last_line(answer, options)
            return found or (_letter_in_box(answer, options) if prefix else None)


def choice_of(captured: str, options: Mapping[str, str]) -> str | None:
    """The option that a text names, which a regular expression of the task has captured.

    The expression is trusted: a single letter counts even if it is not one of the options.
    """
    text = _with_latin_letters(captured.strip())
    if len(text) == 1 and text.isalpha():
        return text.upper()
    return _option_with_text(text, options)


def _box(answer: str) -> str | None:
    """The content of the last box; None if there is none or it has no end."""
    start = answer.rfind(_BOX)
    return last_boxed(answer[start:]) if start >= 0 else None


def _unwrapped(text: str) -> str:
    for _ in range(MOST_WRAPPERS):
        if not (text.startswith(_WRAPPER) and text.endswith("}")):
            break
        text = text[len(_WRAPPER) : -1].strip()
    return text


def _letter_in_box(answer: str, options: Mapping[str, str]) -> str | None:
    content = _unwrapped(_box(answer) or "")
    found = _ONLY_LETTER.fullmatch(content) or _LABEL.match(content)
    return found[1] if found and found[1] in options else None


def _text_in_box(answer: str, options: Mapping[str, str]) -> str | None:
    content = _box(answer)
    if content is None:
        return None
    texts = (_plain(content), _plain(_unwrapped(content)))
    wanted = {letter: _plain(option) for letter, option in options.items() if option.strip()}
    equal = [letter for letter, option in wanted.items() if option in texts]
    contained = [letter for letter, option in wanted.items() if any(option in t for t in texts)]
    named = equal or contained
    return named[0] if len(named) == 1 else None


def _after_colon(answer: str, options: Mapping[str, str]) -> str | None:
    found = _ANSWER.search(answer)
    text = _unwrapped(found[1].strip()) if found else ""
    if text.upper() in options:
        return text.upper()
    return _option_with_text(text, options)


def _option_with_text(text: str, options: Mapping[str, str]) -> str | None:
    wanted = _plain(text)
    return next((letter for letter, option in options.items() if _plain(option) == wanted), None)


def _plain(text: str) -> str:
    return " ".join(text.lower().split())


def _in_answer_lines(answer: str, options: Mapping[str, str], prefix: str) -> str | None:
    text = unicodedata.normalize("NFKC", answer[-LONGEST_NORMALIZED:])
    found = sorted(_answer_lines(text, prefix), reverse=True)[:MOST_ANSWER_LINES]
    choices = (_choice(line[:LONGEST_ANSWER_LINE], options) for _, line in found)
    return next((choice for choice in choices if choice), None)


def _answer_lines(text: str, prefix: str) -> Iterator[tuple[int, str]]:
    """The last texts after `Answer:` and after the prefix, with their positions."""
    answers = deque(_MARKDOWN_ANSWER.finditer(text), MOST_ANSWER_LINES)
    yield from ((found.start(), found[1]) for found in answers)
    wanted = re.escape(unicodedata.normalize("NFKC", prefix))
    after = re.compile(rf"{wanted}\s*+(.*+)", re.IGNORECASE)
    for found in deque(after.finditer(text) if wanted else (), MOST_ANSWER_LINES):
        yield found.start(), found[1]


def _choice(line: str, options: Mapping[str, str]) -> str | None:
    text = _with_latin_letters(line).strip(_DECORATION)
    if _lists_options(text, options):
        return None
    leading = _LEADING_LETTER.match(text)
    letter = leading[1] if leading else next(reversed(_CAPITAL.findall(text)), "")
    return letter.upper() if letter.upper() in options else None


def _lists_options(text: str, options: Mapping[str, str]) -> bool:
    """Whether two different options stand side by side, as in `A/B` or `A or B`."""
    letters = [each for each in _STANDALONE_LETTER.finditer(text) if each[0].upper() in options]
    return any(
        left[0].upper() != right[0].upper()
        and _SEPARATOR.fullmatch(text, left.end(), right.start()) is not None
        for left, right in pairwise(letters)
    )


def _last_line(answer: str, options: Mapping[str, str]) -> str | None:
    """The letter in a last line `label: letter`, whose label may be in any language."""
    line = answer.rstrip().rpartition("\n")[2].strip()[: 4 * _LONGEST_LABEL]
    label, _, rest = unicodedata.normalize("NFKC", line).partition(":")
    letter, after = rest.lstrip(_BEFORE_LETTER)[:1], rest.lstrip(_BEFORE_LETTER)[1:]
    named = 2 <= len(label.strip(_LABEL_DECORATION)) <= _LONGEST_LABEL
    alone = letter.upper() in options and not after.strip(_AFTER_LETTER)
    return letter.upper() if named and alone else None


def _with_latin_letters(text: str) -> str:
    return unicodedata.normalize("NFKC", text).translate(_LOCAL_LETTERS).strip()
