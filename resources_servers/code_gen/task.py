"""The rows of code_gen, and the program in an answer.

*Rows.* There are two kinds of tests, which differ in their fields. All tests of a row have the same
kind. A row of LiveCodeBench is converted and keeps its own rules (see `livecodebench`).

*Programs.* The program is the last fenced block of Python in the answer, else the last fenced
block. Fences are those of Markdown: three or more backticks or tildes, closed by at least as many
of the same. A block that is not closed does not count, because the answer was cut off inside it.
Neither does a block inside `<think>`.
"""

import re
from collections.abc import Iterator
from itertools import islice
from os.path import commonprefix
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

from resources_servers.code_gen.livecodebench import UnitTests
from rollgym.servers import TaskRow
from rollgym.servers.final_answer import without_thinking

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


class VerifierMetadata(BaseModel):
    """What other tools write into a row for its verifier."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    unit_tests: UnitTests | None = None


class CodeTask(TaskRow):
    """A row of code_gen.

    Tests with `arguments` call the function `entry_point`; a method is written `Class.method`.
    `float_tolerance` is the largest difference between numbers, absolute or relative. `unit_tests`
    in `verifier_metadata` are tests of LiveCodeBench.
    """

    verifier_metadata: VerifierMetadata | None = None
    test_cases: list[InputTest] | list[CallTest] = Field(min_length=1)
    entry_point: str | None = None
    float_tolerance: float | None = Field(default=None, ge=0, lt=1)

    @property
    def from_livecodebench(self) -> bool:
        return self.verifier_metadata is not None and self.verifier_metadata.unit_tests is not None

    @model_validator(mode="before")
    @classmethod
    def _with_test_cases(cls, row: dict[str, Any]) -> dict[str, Any]:
        if row.get("verifier_metadata") is None:
            return row
        found = VerifierMetadata.model_validate(row["verifier_metadata"]).unit_tests
        if found is None:
            return row
        if row.get("test_cases") is not None:
            raise ValueError("a row has `test_cases` or `verifier_metadata.unit_tests`, not both")
        return {**row, "test_cases": found.test_cases(), "entry_point": found.fn_name}

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


LONGEST_PROGRAM = 200_000
MOST_FENCES = 5_000
"""Limits of what is read on the event loop; an answer beyond them has no program."""
# The repetitions are possessive: none of them is tried again with fewer characters.
_FENCE = re.compile(r"^[ \t]*+(?P<mark>`{3,}+|~{3,}+)(?P<info>[^\n]*+)", re.MULTILINE)
_PYTHON = {"python", "python3", "py"}


def extract_program(response: str) -> str | None:
    """The program, or None if the answer has no fenced block. Reasoning is not the answer."""
    answer = without_thinking(response).replace("\r\n", "\n")
    last: slice | None = None
    last_python: slice | None = None
    for language, place in _blocks(answer):
        last = place
        if language.lower() in _PYTHON:
            last_python = place
    chosen = last_python or last
    if chosen is None or chosen.stop - chosen.start > LONGEST_PROGRAM:
        return None
    return _without_margin(answer[chosen].removesuffix("\n").split("\n"))


def _blocks(answer: str) -> Iterator[tuple[str, slice]]:
    """The language and the place of every closed block; none if there are too many fences."""
    fences = list(islice(_FENCE.finditer(answer), MOST_FENCES + 1))
    mark, language, start = "", "", 0
    for fence in fences if len(fences) <= MOST_FENCES else ():
        info = fence["info"].strip()
        if not mark:
            if "`" not in info:
                mark, language, start = fence["mark"], _language(info), fence.end() + 1
        elif fence["mark"].startswith(mark) and not info:
            yield language, slice(start, fence.start())
            mark = ""


def _without_margin(lines: list[str]) -> str:
    """The lines without the white space at the start of all of them, as in a list of Markdown."""
    margins = {line[: len(line) - len(line.lstrip(" \t"))] for line in lines if line.strip()}
    # Of texts, not of paths: the first and the last in order differ first where any two do.
    margin = commonprefix([min(margins), max(margins)]) if margins else ""  # noqa: RUF071
    return "".join(f"{line.removeprefix(margin)}\n" for line in lines)


def _language(info: str) -> str:
    words = info.partition("{")[0].split(maxsplit=1)
    return words[0] if words else ""
