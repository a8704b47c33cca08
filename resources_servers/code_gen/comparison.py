"""Whether an answer is the right one. Both sides are plain data; no code of the program runs here.

*Printed.* Lines must agree, except for white space at their ends and empty lines at the end of it
all. With a tolerance it is the words that must agree, and numbers may be off by that much.

*Returned.* Values must agree in type as well: true is not 1, and 1.0 is not 1 where an integer is
expected. Where a float is expected an integer will do, and numbers may be off by the tolerance.
"""

import math

from pydantic import JsonValue

RETURNED_TOLERANCE = 1e-9
LONGEST_NUMBER = 64


def same_text(expected: str, actual: str, tolerance: float | None) -> bool:
    """Whether a program printed what it should."""
    if tolerance is None:
        return _lines(expected) == _lines(actual)
    ours, theirs = expected.split(), actual.split()
    return len(ours) == len(theirs) and all(
        _same_word(*words, tolerance) for words in zip(ours, theirs, strict=True)
    )


def same_value(expected: JsonValue, actual: object, tolerance: float | None) -> bool:
    """Whether a function returned what it should."""
    within = RETURNED_TOLERANCE if tolerance is None else tolerance
    match expected, actual:
        case dict(), dict():
            return expected.keys() == actual.keys() and all(
                same_value(expected[name], actual[name], within) for name in expected
            )
        case list(), list():
            return len(expected) == len(actual) and all(
                same_value(*values, within) for values in zip(expected, actual, strict=True)
            )
        case float(), int() | float() if not isinstance(actual, bool):
            return _close(expected, actual, within)
        case _:
            return type(expected) is type(actual) and expected == actual


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.rstrip().split("\n")]


def _same_word(expected: str, actual: str, tolerance: float) -> bool:
    if expected == actual:
        return True
    number, other = _number(expected), _number(actual)
    return number is not None and other is not None and _close(number, other, tolerance)


def _number(word: str) -> float | None:
    if len(word) > LONGEST_NUMBER:
        return None
    try:
        number = float(word)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _close(expected: float, actual: float, tolerance: float) -> bool:
    try:
        return math.isclose(expected, actual, rel_tol=tolerance, abs_tol=tolerance)
    except OverflowError:  # an integer that no float can hold
        return False
