"""Reasoning and the final answer in the text of a model, read in the same way by every verifier.

A reasoning model writes `<think>…</think>` before its answer when its server does not parse the
reasoning. Splitting and joining trim neither side, so that a history sent back to the model is what
it wrote.

*Cost.* The text may be a megabyte long and is read on the event loop, so each function takes time
linear in its length, with a small factor: what occurs often, such as braces, is looked at only
where an answer can be, and only up to a limit.
"""

import re
from collections.abc import Iterator
from string import ascii_lowercase, ascii_uppercase

LONGEST_ANSWER = 100_000
"""The characters at the end of a response in which a verifier looks for the answer."""
MOST_BOXES = 16
"""The last boxes of a text that are looked at; one of them must be complete."""
MOST_LINES = 64
"""The last lines with a word that are looked at."""
MOST_BRACES = 40_000
"""The braces that are looked at to find the ends of boxes."""

_BOX = re.compile(r"\\(?:boxed|fbox)\s{0,8}\{")
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)
_LATER_THINKING = re.compile(r"^[ \t]{0,8}<think>.*?(?:</think>|\Z)", re.MULTILINE | re.DOTALL)
_SMALL_LETTERS = str.maketrans(ascii_uppercase, ascii_lowercase)
OPENING = "<think>"
CLOSING = "</think>"


def without_thinking(text: str) -> str:
    """The text without its reasoning; empty where the text ends inside the reasoning.

    The reasoning ends with the first `</think>`. Further `<think>` at the start of a line begin
    reasoning too; elsewhere the tag may be part of a program or of a sentence.
    """
    answer = split_thinking(text)[1]
    return _LATER_THINKING.sub("", answer) if OPENING in answer else answer


def answer_text(text: str) -> str:
    """The end of a response without its reasoning, at most `LONGEST_ANSWER` characters."""
    return without_thinking(text)[-LONGEST_ANSWER:]


def last_lines_with(word: str, text: str) -> Iterator[str]:
    """The lines that contain a word of small ASCII letters, in any case; the last line first."""
    small = text.translate(_SMALL_LETTERS)
    end = len(text)
    for _ in range(MOST_LINES):
        found = small.rfind(word, 0, end)
        if found < 0:
            return
        start, stop = text.rfind("\n", 0, found) + 1, text.find("\n", found)
        yield text[start : stop if stop >= 0 else len(text)]
        end = start


def last_boxed(text: str) -> str | None:
    r"""What the last complete `\boxed{…}` holds, the outermost of nested ones; None without one."""
    found: tuple[int, int] | None = None
    braces = MOST_BRACES
    for start in _last_boxes(text):
        end, braces = _closing_brace(text, start, braces)
        if end is not None and (found is None or end > found[1]):
            found = (start, end)
        if not braces:
            break
    return text[slice(*found)].strip() if found else None


def _last_boxes(text: str) -> list[int]:
    """Where the contents of the last boxes begin, the last one first."""
    found: list[int] = []
    names = {name: text.rfind(name) for name in (r"\boxed", r"\fbox")}
    for _ in range(MOST_BOXES):
        name = max(names, key=lambda each: names[each])
        if names[name] < 0:
            break
        box = _BOX.match(text, names[name])
        if box:
            found.append(box.end())
        names[name] = text.rfind(name, 0, names[name])
    return found


def _closing_brace(text: str, start: int, braces: int) -> tuple[int | None, int]:
    """The position of the brace that closes a box, and how many braces may still be looked at."""
    depth = 1
    for brace in _BRACE.finditer(text, start):
        braces -= 1
        match brace[0]:
            case "{":
                depth += 1
            case "}":
                depth -= 1
        if not depth:
            return brace.start(), braces
        if not braces:
            break
    return None, braces


def split_thinking(text: str) -> tuple[str, str]:
    """Split a text into its reasoning ("" if there is none) and the rest.

    Many chat templates open the tag in the prompt, so the text may begin inside it. A tag that is
    not closed means that the text was cut short while the model was reasoning.
    """
    thought, closing, rest = text.partition(CLOSING)
    opened = thought.lstrip()
    if opened.startswith(OPENING):
        return opened.removeprefix(OPENING), rest
    if closing and OPENING not in thought:
        return thought, rest
    return "", text


def join_thinking(reasoning: str, text: str) -> str:
    """Put the reasoning in front of the text."""
    return f"{OPENING}{reasoning}{CLOSING}{text}" if reasoning else text
