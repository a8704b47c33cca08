"""Programs against tests: what passes, what does not, and that nothing passes by cheating."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from resources_servers.code_gen import execution
from resources_servers.code_gen.execution import ProgramLimits, SandboxError
from resources_servers.code_gen.sandbox import Sandbox
from resources_servers.code_gen.task import CodeTask
from resources_servers.code_gen.tests.running import ALL_WALLS, require_layers
from resources_servers.code_gen.verification import CaseResult, CaseStatus, RunBudget, run_tests

# Long and strange enough to be found wherever it may be.
SECRET = "expected-8f1d-never-shown"
DOUBLE: list[dict[str, Any]] = [
    {"arguments": [number], "expected": 2 * number} for number in (1, 5, 21)
]
ECHO: list[dict[str, Any]] = [
    {"input": f"{number}\n", "output": f"{2 * number}\n"} for number in (1, 5, 21)
]


def results(
    source: str,
    test_cases: list[dict[str, Any]],
    *,
    entry_point: str | None = None,
    budget: RunBudget | None = None,
    tolerance: float | None = None,
    **limits: Any,
) -> list[CaseResult]:
    require_layers(ALL_WALLS)
    task = CodeTask.model_validate(
        {"test_cases": test_cases, "entry_point": entry_point, "float_tolerance": tolerance}
    )
    return asyncio.run(
        run_tests(Sandbox(ALL_WALLS), source, task, ProgramLimits(**limits), budget or RunBudget())
    )


def statuses(source: str, test_cases: list[dict[str, Any]], **settings: Any) -> list[str]:
    return [result.status.value for result in results(source, test_cases, **settings)]


def call_status(source: str, expected: Any, *arguments: Any, **settings: Any) -> str:
    tests = [{"arguments": list(arguments), "expected": expected}]
    return statuses(source, tests, entry_point="f", **settings)[0]


# What is right, and what is wrong in which way


def test_a_program_passes_the_tests_whose_output_it_prints() -> None:
    source = "n = int(input())\nprint(2 * n if n < 20 else 0)"
    assert statuses(source, ECHO) == ["passed", "passed", "wrong_answer"]


def test_a_function_passes_the_tests_whose_result_it_returns() -> None:
    source = "print('noise')\ndef f(n):\n    print('more noise')\n    return 2 * n if n < 20 else n"
    assert statuses(source, DOUBLE, entry_point="f") == ["passed", "passed", "wrong_answer"]


def test_a_method_is_called_on_a_new_instance() -> None:
    source = """
class Solution:
    def __init__(self):
        self.factor = 2
    def double(self, n):
        return self.factor * n
"""
    assert statuses(source, DOUBLE, entry_point="Solution.double") == ["passed"] * 3


def test_every_test_begins_afresh() -> None:
    source = "seen = []\ndef f(n):\n    seen.append(n)\n    return 2 * n if seen == [n] else None"
    assert statuses(source, DOUBLE, entry_point="f") == ["passed"] * 3


def test_the_main_part_of_a_program_does_not_run_when_its_function_is_called() -> None:
    source = "def f(n): return 2 * n\nif __name__ == '__main__':\n    f(int(input()))"
    assert statuses(source, DOUBLE, entry_point="f") == ["passed"] * 3


def test_a_failure_is_told_by_its_status_and_its_last_words() -> None:
    cases: Iterable[tuple[str, str, str]] = [
        ("print(2 * int(input())", "runtime_error", "SyntaxError"),
        ("print(1 / 0)", "runtime_error", "ZeroDivisionError"),
        ("print(2)\nraise KeyError(1)", "runtime_error", "KeyError: 1\nexit status 1"),
        ("print(2)\nexit('no')", "runtime_error", "no\nexit status 1"),
        ("print(2)\nimport os\nos._exit(3)", "runtime_error", "exit status 3"),
        ("import ctypes\nctypes.string_at(0)", "runtime_error", "killed by SIGSEGV"),
        ("import numpy", "runtime_error", "ModuleNotFoundError"),
        ("x = '\x00'", "runtime_error", "null bytes"),
        ("hoard = bytearray(10**12)", "memory_limit", "MemoryError"),
        ("print('x' * 10**7)", "output_limit", ""),
        ("while True: pass", "time_limit", ""),
    ]
    for source, status, error in cases:
        (result,) = results(source, ECHO[:1], cpu_seconds=1)
        assert result.status == status
        assert error in result.error


def test_a_traceback_shows_the_program_and_nothing_of_ours() -> None:
    (result,) = results("def g():\n    return 1 / 0\ng()", ECHO[:1])
    assert 'File "solution.py", line 2, in g\n    return 1 / 0' in result.error
    assert "launcher" not in result.error
    assert "program.py" not in result.error


def test_what_a_result_shows_is_bounded() -> None:
    source = "import sys\nprint('a' * 10**5)\nprint('b' * 10**5, file=sys.stderr)"
    (result,) = results(source, ECHO[:1])
    assert result.output == "a" * 500
    assert result.error == "b" * 1000


def test_a_row_can_allow_numbers_to_be_off() -> None:
    tests = [{"input": "", "output": "0.333333333\n"}]
    assert statuses("print(1 / 3)", tests) == ["wrong_answer"]
    assert statuses("print(1 / 3)", tests, tolerance=1e-6) == ["passed"]


def test_after_a_few_failures_the_rest_is_left_out() -> None:
    tests = ECHO * 3
    assert statuses("print(2)", tests, budget=RunBudget(failures=2)) == [
        "passed",
        "wrong_answer",
        "wrong_answer",
        *["not_run"] * 6,
    ]
    everything = statuses("print(2)", tests, budget=RunBudget(failures=None))
    assert everything == ["passed", "wrong_answer", "wrong_answer"] * 3


BURN = "import time\nwhile time.process_time() < 0.2: pass\n"


def test_the_processor_time_of_all_tests_together_can_be_limited() -> None:
    budget = RunBudget(cpu_seconds=0.35)
    assert (
        statuses(BURN + "print(2)", ECHO[:1] * 4, budget=budget) == ["passed"] * 2 + ["not_run"] * 2
    )


def test_waiting_is_not_processor_time() -> None:
    source = "import time\ntime.sleep(0.3)\nprint(2 * int(input()))"
    assert statuses(source, ECHO, budget=RunBudget(cpu_seconds=0.35)) == ["passed"] * 3


@contextmanager
def busy_machine(hogs: int) -> Iterator[None]:
    """This process, and the programs that it starts, share one processor with busy processes."""
    processors = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(processors)})
    command = [sys.executable, "-S", "-c", "while True: pass"]
    # In sessions of their own, because the processor may be shared between sessions.
    running = [subprocess.Popen(command, start_new_session=True) for _ in range(hogs)]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()
        os.sched_setaffinity(0, processors)


def test_a_busy_machine_changes_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    require_layers(ALL_WALLS)
    source = BURN + "n = int(input())\nif n == 5: time.sleep(100)\nprint(2 * n)"
    with busy_machine(hogs=6):
        monkeypatch.setattr(execution, "BUSY_FACTOR", 200)
        assert statuses(source, ECHO[:2], wall_seconds=0.3) == ["passed", "time_limit"]
        monkeypatch.setattr(execution, "BUSY_FACTOR", 1)
        with pytest.raises(SandboxError, match=r"too busy to tell .* use fewer workers"):
            statuses(source, ECHO[:1], wall_seconds=0.3)


# What goes in and what comes out


def test_arguments_and_results_are_plain_data_and_arrive_as_they_are() -> None:
    cases: Iterable[Any] = [
        None,
        True,
        0,
        -(2**70),
        0.1,
        "",
        "\u00fc\u20ac\U0001f600\x00\n",
        [],
        [[1, [2, {"a": None}]]],
        {"k": {"l": [1.5, "x"]}},
    ]
    for value in cases:
        assert call_status("def f(x): return x", value, value) == "passed"


def test_a_tuple_counts_as_a_list_and_keys_as_text() -> None:
    assert call_status("def f(): return (1, {2: (3,)})", [1, {"2": [3]}]) == "passed"


def test_a_result_that_is_no_plain_data_does_not_count() -> None:
    cases: Iterable[str] = [
        "{1}",
        "object()",
        "b'1'",
        "1j",
        "float('nan')",
        "float('inf')",
        "f",
        "{(1, 2): 3}",
        "10**5000",
    ]
    for result in cases:
        assert call_status(f"def f(): return {result}", 1) == "invalid_result"


def test_a_function_without_the_result_does_not_pass() -> None:
    cases: Iterable[tuple[str, str]] = [
        ("def g(): return 1", "runtime_error"),
        ("f = 1", "runtime_error"),
        ("def f(): pass", "wrong_answer"),
        ("def f(x): return 1", "runtime_error"),
        ("def f(): exit()", "invalid_result"),
        ("def f():\n    import os\n    os._exit(0)", "invalid_result"),
        ("def f():\n    import os\n    for n in range(3, 64): os.close(n)", "runtime_error"),
        ("def f():\n    x = []\n    x.append(x)\n    return x", "invalid_result"),
        ("def f():\n    x = 1\n    for _ in range(10**5): x = [x]\n    return x", "invalid_result"),
    ]
    for source, status in cases:
        assert call_status(source, 1) == status


# Cheating


def test_an_object_that_equals_everything_is_not_the_answer() -> None:
    source = """
class Any:
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __hash__(self): return 0
    def __repr__(self): return "2"
    __str__ = __repr__
class Number(int):
    __eq__ = Any.__eq__
    __hash__ = int.__hash__
class Items(list):
    def __len__(self): return 1
    __eq__ = Any.__eq__
kinds = {1: Any(), 5: Number(3), 21: Items([1])}
def f(n): return kinds[n]
"""
    tests = [*DOUBLE[:2], {"arguments": [21], "expected": [42]}]
    assert statuses(source, tests, entry_point="f") == [
        "invalid_result",
        "wrong_answer",
        "wrong_answer",
    ]


def test_a_program_that_only_claims_success_does_not_pass() -> None:
    cases: Iterable[str] = [
        "print('passed')",
        "print('{\"result\": 2}')",
        "import os\nos._exit(0)",
        "import sys\nsys.exit(0)",
        "import builtins\nbuiltins.print = lambda *a: None\nprint(2)",
        "import sys\nsys.stdout = sys.stderr\nprint(2)",
        "import os\nos.write(2, b'started\\nended 0 0.0\\n')",
        "raise SystemExit(0)",
        "",
    ]
    for source in cases:
        assert statuses(source, ECHO[:1]) == ["wrong_answer"]


FORGERIES = {
    "every descriptor": """
import os
for descriptor in range(3, 64):
    for message in (b"started\\nended 0 0.0\\n", b'{"result": "passed", "status": "passed"}'):
        try:
            os.write(descriptor, message)
        except OSError:
            pass
os._exit(0)
""",
    "the encoder": """
import json
json.dumps = lambda *a, **k: '{"status": "passed", "success": true, "reward": 1.0}'
""",
    "the launcher's modules": """
import sys
for name, module in list(sys.modules.items()):
    if "code_gen" in name:
        for attribute in list(vars(module)):
            if not attribute.startswith("__"):
                setattr(module, attribute, lambda *a, **k: True)
""",
    "the caller's frame": """
import sys
frame = sys._getframe()
while frame:
    for name in list(frame.f_locals):
        frame.f_globals[name] = True
    frame = frame.f_back
""",
    "the end": """
import atexit, os
atexit.register(os._exit, 0)
raise ValueError
""",
}


def test_a_program_that_forges_what_leaves_its_process_does_not_pass() -> None:
    cases: Iterable[str] = FORGERIES
    for trick in cases:
        source = f"def f(n):\n    return None\n{FORGERIES[trick]}"
        assert "passed" not in statuses(source, DOUBLE, entry_point="f")


def test_a_forged_answer_is_worth_as_much_as_a_returned_one() -> None:
    source = """
import os
def f(n):
    for descriptor in range(3, 64):
        try:
            os.write(descriptor, b'{"result": 2}')
        except OSError:
            pass
    os._exit(0)
"""
    assert statuses(source, DOUBLE, entry_point="f") == ["passed", "wrong_answer", "wrong_answer"]


def test_two_answers_are_none() -> None:
    source = """
import os
def f(n):
    for descriptor in range(3, 64):
        try:
            os.write(descriptor, b'{"result": 2}')
        except OSError:
            pass
    return 2
"""
    assert call_status(source, 2, 1) == "invalid_result"


def test_what_is_expected_is_nowhere_in_the_process() -> None:
    search = f"""
import gc, os, sys
def f(prefix):
    texts = []
    frame = sys._getframe()
    while frame:
        texts.append(repr(frame.f_locals) + repr(frame.f_globals))
        frame = frame.f_back
    texts += [repr(each) for each in gc.get_objects() if type(each) in (dict, list, tuple)]
    texts += [repr(sys.argv), repr(dict(os.environ)), sys.stdin.read()]
    for path in ("/proc/self/mem", "/proc/self/cmdline", "/proc/self/environ"):
        try:
            texts.append(open(path, "rb").read().decode("latin-1"))
        except OSError:
            pass
    for text in texts:
        start = text.find(prefix + "-8f1d")
        if start >= 0:
            return text[start : start + {len(SECRET)}]
    return "not found"
"""
    tests = [{"arguments": ["expected"], "expected": SECRET}]
    (result,) = results(search, tests, entry_point="f")
    assert (result.status, result.output) == (CaseStatus.WRONG_ANSWER, '{"result": "not found"}')


def test_an_answer_made_of_brackets_does_not_hurt_the_judge() -> None:
    source = "import os\ndef f():\n    os.write({}, b'[' * 50_000)\n    os._exit(0)"
    tests = [{"arguments": [], "expected": 1}]
    for descriptor in range(3, 6):
        assert "passed" not in statuses(source.format(descriptor), tests, entry_point="f")
