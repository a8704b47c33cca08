"""Runs a program against its tests, one after the other, each in a new process.

*Expected values stay here.* The process of a program gets an input or arguments and returns bytes,
which are compared in this process. So a program cannot gain anything by changing its process, its
streams or its exit status: it passes a test only with the right answer and a normal end.

*Cost.* One failed test decides the reward, and a program that fails a few tests usually fails many,
so the remaining tests do not run after a few failures. The processor time of all tests together can
be limited.

*Printed answers.* Lines must be equal, except for white space at their ends and empty lines at the
end. With a tolerance, words must be equal, or numbers that differ by at most the tolerance.

*Returned answers.* Values must also have the same type: true is not 1, and 1.0 is not 1 if an
integer is expected. If a float is expected, an integer is accepted, and numbers may differ by the
tolerance. Both sides are plain data, so no code of the program runs in a comparison.
"""

import asyncio
import math
from enum import StrEnum

import msgspec
from pydantic import JsonValue

from resources_servers.code_gen.execution import ProgramLimits, ProgramRun, RunEnding
from resources_servers.code_gen.livecodebench import PRELUDE, same_printed, same_returned
from resources_servers.code_gen.sandbox import Program, Sandbox
from resources_servers.code_gen.task import CallTest, CodeTask, InputTest

OUTPUT_SHOWN = 500
ERROR_SHOWN = 1_000


class CaseStatus(StrEnum):
    """The result of one test."""

    PASSED = "passed"
    WRONG_ANSWER = "wrong_answer"
    INVALID_RESULT = "invalid_result"
    RUNTIME_ERROR = "runtime_error"
    TIME_LIMIT = "time_limit"
    MEMORY_LIMIT = "memory_limit"
    OUTPUT_LIMIT = "output_limit"
    NOT_RUN = "not_run"


_FAILURES = {
    RunEnding.FAILED: CaseStatus.RUNTIME_ERROR,
    RunEnding.TIME_LIMIT: CaseStatus.TIME_LIMIT,
    RunEnding.MEMORY_LIMIT: CaseStatus.MEMORY_LIMIT,
    RunEnding.OUTPUT_LIMIT: CaseStatus.OUTPUT_LIMIT,
}


class CaseResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """The result of one test; if it failed with the first output and the last errors."""

    status: CaseStatus
    output: str = ""
    error: str = ""


class RunBudget(msgspec.Struct, frozen=True):
    """Limits of all tests of a program, after which no more tests run; None means no limit."""

    cpu_seconds: float | None = None
    failures: int | None = 3


async def run_tests(
    sandbox: Sandbox, source: str, task: CodeTask, limits: ProgramLimits, budget: RunBudget
) -> list[CaseResult]:
    """Return the result of every test of the task, in order. Raises what the sandbox raises."""
    results: list[CaseResult] = []
    left = math.inf if budget.cpu_seconds is None else budget.cpu_seconds
    failures = 0
    for test in task.test_cases:
        if left <= 0 or failures == budget.failures:
            results.append(CaseResult(CaseStatus.NOT_RUN))
            continue
        run = await sandbox.run(_program(source, task, test), limits)
        # An answer may be large, and the event loop serves other requests.
        results.append(await asyncio.to_thread(_result, run, task, test))
        left -= run.cpu_seconds
        failures += results[-1].status is not CaseStatus.PASSED
    return results


def _program(source: str, task: CodeTask, test: InputTest | CallTest) -> Program:
    if task.from_livecodebench:
        source = PRELUDE + source
    if isinstance(test, InputTest):
        return Program(source, stdin=test.input)
    return Program(source, entry_point=task.entry_point, arguments=test.arguments)


def _result(run: ProgramRun, task: CodeTask, test: InputTest | CallTest) -> CaseResult:
    if run.ending in _FAILURES:
        status, reason = _FAILURES[run.ending], run.detail
    elif isinstance(test, InputTest):
        printed = run.answer.decode("utf-8", "replace")
        status, reason = _right(_printed(printed, task, test)), ""
    else:
        status, reason = _call_status(run.answer, task, test)
    if status is CaseStatus.PASSED:
        return CaseResult(status)
    errors = run.errors[-4 * ERROR_SHOWN :].decode("utf-8", "replace").strip()[-ERROR_SHOWN:]
    return CaseResult(
        status,
        run.answer[: 4 * OUTPUT_SHOWN].decode("utf-8", "replace")[:OUTPUT_SHOWN],
        "\n".join(text for text in (errors, reason) if text),
    )


def _printed(answer: str, task: CodeTask, test: InputTest) -> bool:
    if task.from_livecodebench:
        return same_printed(test.output, answer)
    return same_text(test.output, answer, task.float_tolerance)


def _returned(answer: object, task: CodeTask, test: CallTest) -> bool:
    if task.from_livecodebench:
        return same_returned(test.expected, answer)
    return same_value(test.expected, answer, task.float_tolerance)


def _call_status(answer: bytes, task: CodeTask, test: CallTest) -> tuple[CaseStatus, str]:
    """Read an answer. The program wrote it, so it may contain anything."""
    try:
        decoded = msgspec.json.decode(answer)
    except (ValueError, RecursionError):
        decoded = None
    match decoded:
        case {"result": value}:
            return _right(_returned(value, task, test)), ""
        case {"unusable": str(reason)}:
            return CaseStatus.INVALID_RESULT, f"the result cannot be written as JSON: {reason}"
        case _:
            return CaseStatus.INVALID_RESULT, "the program ended without a readable result"


def _right(same: bool) -> CaseStatus:
    return CaseStatus.PASSED if same else CaseStatus.WRONG_ANSWER


RETURNED_TOLERANCE = 1e-9
LONGEST_NUMBER = 64


def same_text(expected: str, actual: str, tolerance: float | None) -> bool:
    """Whether a program printed the expected text."""
    if tolerance is None:
        return _lines(expected) == _lines(actual)
    wanted, printed = expected.split(), actual.split()
    return len(wanted) == len(printed) and all(
        _same_word(*words, tolerance) for words in zip(wanted, printed, strict=True)
    )


def same_value(expected: JsonValue, actual: object, tolerance: float | None) -> bool:
    """Whether a function returned the expected value."""
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
    except OverflowError:  # the integer is too large for a float
        return False
