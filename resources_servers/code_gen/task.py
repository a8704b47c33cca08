"""The rows of code_gen: what a program is tested with.

There are two kinds of tests, told apart by their fields. All tests of a row are of one kind.
"""

import re
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
    """A row.

    `entry_point` is the function that call tests call, either by its name or, for a method, as
    `Class.method`. `float_tolerance` is how far numbers may be off, absolutely or relatively.
    """

    test_cases: list[InputTest] | list[CallTest] = Field(min_length=1)
    entry_point: str | None = None
    float_tolerance: float | None = Field(default=None, ge=0, lt=1)

    @model_validator(mode="after")
    def _entry_point_goes_with_calls(self) -> Self:
        calls = isinstance(self.test_cases[0], CallTest)
        if calls and self.entry_point is None:
            raise ValueError("tests with `arguments` need an `entry_point`, the function to call")
        if not calls and self.entry_point is not None:
            raise ValueError("an `entry_point` needs tests with `arguments` and `expected`")
        if self.entry_point is not None and not _ENTRY_POINT.fullmatch(self.entry_point):
            raise ValueError(f"the entry_point {self.entry_point!r} is neither `name` nor `A.name`")
        return self
