"""The judge: a program against its tests, one after the other, each in a fresh process.

The program never sees what is expected: an input or arguments go in, bytes come out, and they are
compared here. So there is nothing to gain by tampering with the process, its streams or its exit;
a program passes a test by giving the right answer and ending well, in no other way.

*Cost.* One failed test decides the reward, and a program that fails a few usually fails many: after
a few failures the remaining tests are left out. The time of all tests together is bounded, too.
"""

import asyncio
from enum import StrEnum

import msgspec

from resources_servers.code_gen.comparison import same_text, same_value
from resources_servers.code_gen.execution import Run
from resources_servers.code_gen.report import Ending
from resources_servers.code_gen.sandbox import Allowance, Program, Sandbox
from resources_servers.code_gen.task import CallTest, CodeTask, InputTest

OUTPUT_SHOWN = 500
ERROR_SHOWN = 1_000


class Status(StrEnum):
    """What came of one test."""

    PASSED = "passed"
    WRONG_ANSWER = "wrong_answer"
    INVALID_RESULT = "invalid_result"
    RUNTIME_ERROR = "runtime_error"
    TIME_LIMIT = "time_limit"
    MEMORY_LIMIT = "memory_limit"
    OUTPUT_LIMIT = "output_limit"
    NOT_RUN = "not_run"


_FAILURES = {
    Ending.FAILED: Status.RUNTIME_ERROR,
    Ending.TIME_LIMIT: Status.TIME_LIMIT,
    Ending.MEMORY_LIMIT: Status.MEMORY_LIMIT,
    Ending.OUTPUT_LIMIT: Status.OUTPUT_LIMIT,
}


class Result(msgspec.Struct, frozen=True, omit_defaults=True):
    """What came of one test; where it failed, with the start of the answer and the last errors."""

    status: Status
    output: str = ""
    error: str = ""


class Patience(msgspec.Struct, frozen=True):
    """How long to go on with a program: seconds of all its tests, and failed tests."""

    seconds: float = 120.0
    failures: int | None = 3


async def judge(
    sandbox: Sandbox, source: str, task: CodeTask, allowance: Allowance, patience: Patience
) -> list[Result]:
    """The result of every test of the task, in order. Raises what the sandbox raises."""
    results: list[Result] = []
    left, failures = patience.seconds, 0
    for test in task.test_cases:
        if left <= 0 or failures == patience.failures:
            results.append(Result(Status.NOT_RUN))
            continue
        within = msgspec.structs.replace(allowance, wall_seconds=min(allowance.wall_seconds, left))
        run = await sandbox.run(_program(source, task, test), within)
        # An answer may be large, and the event loop has others to serve.
        results.append(await asyncio.to_thread(_result, run, task, test))
        left -= run.seconds
        failures += results[-1].status is not Status.PASSED
    return results


def _program(source: str, task: CodeTask, test: InputTest | CallTest) -> Program:
    if isinstance(test, InputTest):
        return Program(source, stdin=test.input)
    return Program(source, entry_point=task.entry_point, arguments=test.arguments)


def _result(run: Run, task: CodeTask, test: InputTest | CallTest) -> Result:
    if run.ending in _FAILURES:
        status, why = _FAILURES[run.ending], run.detail
    elif isinstance(test, InputTest):
        printed = run.answer.decode("utf-8", "replace")
        status, why = _right(same_text(test.output, printed, task.float_tolerance)), ""
    else:
        status, why = _call_status(run.answer, test, task.float_tolerance)
    if status is Status.PASSED:
        return Result(status)
    errors = run.errors[-4 * ERROR_SHOWN :].decode("utf-8", "replace").strip()[-ERROR_SHOWN:]
    return Result(
        status,
        run.answer[: 4 * OUTPUT_SHOWN].decode("utf-8", "replace")[:OUTPUT_SHOWN],
        "\n".join(text for text in (errors, why) if text),
    )


def _call_status(answer: bytes, test: CallTest, tolerance: float | None) -> tuple[Status, str]:
    """The answer is whatever the program wrote, so anything at all may be in it."""
    try:
        decoded = msgspec.json.decode(answer)
    except (ValueError, RecursionError):
        decoded = None
    match decoded:
        case {"result": value}:
            return _right(same_value(test.expected, value, tolerance)), ""
        case {"unusable": str(why)}:
            return Status.INVALID_RESULT, f"the result cannot be written as JSON: {why}"
        case _:
            return Status.INVALID_RESULT, "the program ended without a readable result"


def _right(same: bool) -> Status:
    return Status.PASSED if same else Status.WRONG_ANSWER
