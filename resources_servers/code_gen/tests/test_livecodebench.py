"""Rows of LiveCodeBench, as NeMo Gym's datasets have them."""

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest

from resources_servers.code_gen.execution import ProgramLimits
from resources_servers.code_gen.livecodebench import same_printed, same_returned
from resources_servers.code_gen.sandbox import Sandbox
from resources_servers.code_gen.task import CodeTask
from resources_servers.code_gen.tests.running import ALL_WALLS, require_layers
from resources_servers.code_gen.verification import RunBudget, run_tests


def statuses(source: str, **unit_tests: Any) -> list[str]:
    require_layers(ALL_WALLS)
    task = CodeTask.model_validate({"verifier_metadata": {"unit_tests": unit_tests, "id": 7}})
    running = run_tests(Sandbox(ALL_WALLS), source, task, ProgramLimits(), RunBudget())
    return [result.status.value for result in asyncio.run(running)]


def test_programs_read_and_print() -> None:
    source = "print(Counter(input().split())['a'], datetime.date(2000, 1, 2).day / 4)"
    inputs, outputs = ["a b a\n", "b"], ["2  0.5000001\n\n", "1 0.5"]
    assert statuses(source, inputs=inputs, outputs=outputs) == ["passed", "wrong_answer"]


def test_functions_and_methods_are_called() -> None:
    method = (
        "class Solution:\n    def count(self, n: List[int], k: int) -> float: return len(n) * k / 1"
    )
    function = "def count(n, k): return (len(n) * k,)[0]"
    for source in (method, function):
        found = statuses(source, inputs=["[1, 2]\n3", "[]\n1"], outputs=["6", "1"], fn_name="count")
        assert found == ["passed", "wrong_answer"], source


def test_what_counts_as_printed_and_returned() -> None:
    cases: Iterable[tuple[str, str, bool]] = [
        (" 1 2\n3 ", "1 2\n 3\n", True),
        ("1 2\n3", "1 2 3", False),
        ("1000000", "1000001", False),
        ("1.0", "1", True),
        ("0.3333333", "0.3333335", True),
        ("0.333", "0.334", False),
        ("1 a", "1.0 a", False),
        ("nan", "nan", True),
        ("inf", "1e400", False),
        ("9" * 100 + ".0", "9" * 100, False),
    ]
    for expected, actual, same in cases:
        assert same_printed(expected, actual) is same, (expected, actual)
    assert same_returned(4, 4.0)
    assert same_returned(0.1, 0.1000000001)
    assert not same_returned([0.1], [0.2])
    assert not same_returned(10**400, 1.5)


def test_a_row_must_have_as_many_outputs_as_inputs_and_one_kind_of_tests() -> None:
    cases: Iterable[tuple[dict[str, Any], str]] = [
        ({"verifier_metadata": {"unit_tests": {"inputs": ["1"], "outputs": []}}}, "1 inputs and 0"),
        (
            {
                "verifier_metadata": {"unit_tests": {"inputs": ["1"], "outputs": ["1"]}},
                "test_cases": [{"input": "1", "output": "1"}],
            },
            "not both",
        ),
        (
            {
                "verifier_metadata": {
                    "unit_tests": {"inputs": ["x"], "outputs": ["1"], "fn_name": "f"}
                }
            },
            "must be JSON",
        ),
        ({"verifier_metadata": {"difficulty": "easy"}}, "test_cases"),
    ]
    for row, message in cases:
        with pytest.raises(ValueError, match=message):
            CodeTask.model_validate(row)
