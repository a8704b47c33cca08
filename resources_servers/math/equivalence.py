"""Compares two answers with math-verify. Runs in isolated workers only.

math-verify's own time limits need signals in the main thread and are off; the server limits the
processor time of the worker. math-verify initializes itself at import, so that the first comparison
has as much time as any other.
"""

import logging
import re
from typing import Any, Literal, NamedTuple

from math_verify import (  # type: ignore[import-untyped]
    ExprExtractionConfig,
    LatexExtractionConfig,
    parse,
    verify,
)

Reading = Literal["expression", "text"]
Comparison = Literal["equal", "different", "unreadable", "unfinished"]

_DELIMITERS = (("$$", "$$"), ("$", "$"), (r"\(", r"\)"), (r"\[", r"\]"))
_UNFINISHED = re.compile(
    r"\\(?:i{1,3}nt|sum|prod|lim)(?![a-z])"
    r"|\\d?frac\s?\{(?:d|\\partial)[^{}]{0,9}\}\s?\{(?:d|\\partial)"
)
_EXPRESSION: tuple[object, ...] = (LatexExtractionConfig(boxed_match_priority=0),)
_TEXT: tuple[object, ...] = (LatexExtractionConfig(), ExprExtractionConfig())

logging.getLogger("math_verify").setLevel(logging.ERROR)


def compare(expected: str, candidate: str, reading: Reading) -> Comparison:
    """Compare an answer with the expected one.

    The expected answer is an expression. The candidate is an expression too, or a `text` in which
    the last LaTeX or number counts. `unreadable` means that one of the two cannot be read. A
    candidate with an integral, a derivative, a sum, a product or a limit is `unfinished`, unless
    the expected answer has one too: otherwise repeating the question would equal its answer.
    """
    wanted = _read(expected, "expression")
    given = _read(candidate, reading)
    if not wanted.objects or not given.objects:
        return "unreadable"
    if given.unfinished and not wanted.unfinished:
        return "unfinished"
    return "equal" if verify(wanted.objects, given.objects, timeout_seconds=None) else "different"


class _ParsedAnswer(NamedTuple):
    """An answer as SymPy reads it (one object or none), and its text."""

    objects: list[Any]
    text: str

    @property
    def unfinished(self) -> bool:
        return _UNFINISHED.search(_last_side(self.text)) is not None


def _read(answer: str, reading: Reading) -> _ParsedAnswer:
    if reading == "expression":
        answer, targets = rf"\boxed{{{_bare(answer)}}}", _EXPRESSION
    else:
        targets = _TEXT
    found = parse(answer, targets, fallback_mode="first_match", parsing_timeout=None)
    texts = [member for member in found if isinstance(member, str)]
    return _ParsedAnswer(
        [member for member in found if not isinstance(member, str)], "".join(texts)
    )


def _last_side(equation: str) -> str:
    """The text after the last equals sign that is not inside a limit or an index."""
    depth, start = 0, 0
    for position, character in enumerate(equation):
        if character == "=" and depth <= 0:
            start = position + 1
        depth += (character == "{") - (character == "}")
    return equation[start:]


def _bare(expression: str) -> str:
    """Remove a full stop at the end and the delimiters of a formula."""
    bare = expression.strip().removesuffix(".").strip()
    for opening, closing in _DELIMITERS:
        inner = bare.removeprefix(opening).removesuffix(closing)
        if len(inner) == len(bare) - len(opening) - len(closing):
            return inner.strip()
    return bare


compare("x", "$y$ or 1/2", "text")
