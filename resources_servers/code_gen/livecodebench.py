"""Rows and rules of LiveCodeBench, which NeMo Gym's `code_gen` uses.

*Rows.* `verifier_metadata.unit_tests` has lists of inputs and outputs. With `fn_name` the function
is called: each line of an input is an argument as JSON, and the output is the result as JSON.

*Programs* may use the common names of the standard library without importing them.

*Printed answers.* Lines must be equal, except for white space around them, or consist of equal
numbers. Where one of two numbers is not an integer, they may differ by one millionth, absolute or
relative.

*Returned answers.* Numbers are equal as in Python, so 4.0 is 4 and true is 1; two numbers may also
be close.
"""

import math
from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec
from pydantic import BaseModel, ConfigDict

TOLERANCE = Decimal("1e-6")
LONGEST_NUMBER = 64
_MODULES = (
    *("string", "re", "datetime", "collections", "heapq", "bisect", "copy", "math", "random"),
    *("statistics", "itertools", "functools", "operator", "io", "sys", "json"),
)
# The modules come last: some have the name of what they contain.
PRELUDE = (
    "".join(f"from {module} import *; " for module in (*_MODULES, "builtins", "typing"))
    + f"import {', '.join(_MODULES)}; sys.setrecursionlimit(50_000)\n"
)
"""Stands before a program, on a line of its own."""


class UnitTests(BaseModel):
    """The tests of a row."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    inputs: list[str]
    outputs: list[str]
    fn_name: str | None = None

    def test_cases(self) -> list[dict[str, Any]]:
        """The tests in the form of our rows. Raises ValueError."""
        if len(self.inputs) != len(self.outputs):
            raise ValueError(
                f"unit_tests: {len(self.inputs)} inputs and {len(self.outputs)} outputs"
            )
        pairs = zip(self.inputs, self.outputs, strict=True)
        if self.fn_name is None:
            return [{"input": given, "output": wanted} for given, wanted in pairs]
        try:
            return [
                {
                    "arguments": [msgspec.json.decode(line) for line in given.split("\n")],
                    "expected": msgspec.json.decode(wanted),
                }
                for given, wanted in pairs
            ]
        except msgspec.DecodeError as error:
            raise ValueError(
                f"unit_tests: with fn_name, each line must be JSON: {error}"
            ) from error


def same_printed(expected: str, actual: str) -> bool:
    """Whether a program printed the expected text."""
    wanted, printed = expected.strip().split("\n"), actual.strip().split("\n")
    return len(wanted) == len(printed) and all(
        _same_line(left.strip(), right.strip()) for left, right in zip(wanted, printed, strict=True)
    )


def same_returned(expected: object, actual: object) -> bool:
    """Whether a function returned the expected value."""
    if expected == actual:
        return True
    numbers = isinstance(expected, int | float) and isinstance(actual, int | float)
    try:
        return numbers and math.isclose(
            float(actual),  # type: ignore[arg-type]
            float(expected),  # type: ignore[arg-type]
            rel_tol=1e-5,
            abs_tol=1e-8,
        )
    except OverflowError:
        return False


def _same_line(expected: str, actual: str) -> bool:
    if expected == actual:
        return True
    wanted, printed = expected.split(), actual.split()
    return len(wanted) == len(printed) and all(map(_same_number, wanted, printed))


def _same_number(expected: str, actual: str) -> bool:
    left, right = _number(expected), _number(actual)
    if left is None or right is None:
        return False
    if left == right:
        return True
    whole = not any(mark in word.lower() for word in (expected, actual) for mark in ".e")
    if whole or not (left.is_finite() and right.is_finite()):
        return False
    return abs(left - right) <= TOLERANCE * max(abs(left), Decimal(1))


def _number(word: str) -> Decimal | None:
    if len(word) > LONGEST_NUMBER:
        return None
    try:
        return Decimal(word)
    except InvalidOperation:
        return None
