"""The rows of code_gen, and the program in an answer.

*Rows.* There are two kinds of tests, which differ in their fields. All tests of a row have the same
kind.

*Programs.* The program is the last fenced block of Python in the answer, else the last fenced
block. Fences are those of Markdown: three or more backticks or tildes, closed by at least as many
of the same. A block that is not closed does not count, because the answer was cut off inside it.
"""

import re
import textwrap
from collections.abc import Iterator
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

from rollgym.servers import TaskRow

_ENTRY_POINT = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")


class _Test(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class InputTest(_Test):
    """The program reads `input` and must print `output`."""

    input: str
    output: str


class CallTest(_Test):
    """The function called with `arguments` must return `expected`."""

    arguments: list[JsonValue]
    expected: JsonValue


class CodeTask(TaskRow):
    """A row of code_gen.

    Tests with `arguments` call the function `entry_point`; a method is written `Class.method`.
    `float_tolerance` is the largest difference between numbers, absolute or relative.
    """

    test_cases: list[InputTest] | list[CallTest] = Field(min_length=1)
    entry_point: str | None = None
    float_tolerance: float | None = Field(default=None, ge=0, lt=1)

    @model_validator(mode="after")
    def _entry_point_goes_with_calls(self) -> Self:
        calls = isinstance(self.test_cases[0], CallTest)
        if calls and self.entry_point is None:
            raise ValueError("tests with `arguments` need an `entry_point`: the function to call")
        if not calls and self.entry_point is not None:
            raise ValueError("an `entry_point` needs tests with `arguments` and `expected`")
        if self.entry_point is not None and not _ENTRY_POINT.fullmatch(self.entry_point):
            raise ValueError(
                f"the entry_point {self.entry_point!r} must be the name of a function, or "
                "`Class.method`"
            )
        return self


_FENCE = re.compile(r"[ \t]*(?P<mark>`{3,}|~{3,})[ \t]*(?P<language>[^\s`{]*)[^`]*")
_PYTHON = {"python", "python3", "py"}


def extract_program(answer: str) -> str | None:
    """The program, or None if the answer has no fenced block."""
    blocks = list(_blocks(answer))
    python = [code for language, code in blocks if language.lower() in _PYTHON]
    candidates = python or [code for _, code in blocks]
    return candidates[-1] if candidates else None


def _blocks(answer: str) -> Iterator[tuple[str, str]]:
    mark, language, lines = "", "", list[str]()
    # `splitlines` would also split at a form feed inside the program.
    for line in answer.replace("\r\n", "\n").split("\n"):
        fence = _FENCE.fullmatch(line)
        if not mark:
            if fence:
                mark, language, lines = fence["mark"], fence["language"], []
        elif line.strip().startswith(mark) and not line.strip().strip(mark[0]):
            yield language, textwrap.dedent("\n".join(lines)) + "\n"
            mark = ""
        else:
            lines.append(line)
