from collections.abc import Iterable

import pytest
from pydantic import ValidationError

from resources_servers.code_gen.task import CallTest, CodeTask, InputTest


def test_a_row_has_tests_with_input_or_tests_with_arguments() -> None:
    reading = CodeTask.model_validate({"test_cases": [{"input": "1\n", "output": "2\n"}]})
    calling = CodeTask.model_validate(
        {"test_cases": [{"arguments": [1, "a"], "expected": None}], "entry_point": "Solution.f"}
    )
    assert reading.test_cases == [InputTest(input="1\n", output="2\n")]
    assert calling.test_cases == [CallTest(arguments=[1, "a"], expected=None)]


def test_a_row_of_another_shape_is_refused_with_the_reason() -> None:
    cases: Iterable[tuple[dict[str, object], str]] = [
        ({}, "test_cases"),
        ({"test_cases": []}, "at least 1"),
        ({"test_cases": [{"input": "1"}]}, "output"),
        ({"test_cases": [{"input": "1", "output": "1", "expected": 1}]}, "expected"),
        (
            {
                "test_cases": [{"input": "1", "output": "1"}, {"arguments": [], "expected": 1}],
                "entry_point": "f",
            },
            "input",
        ),
        ({"test_cases": [{"arguments": [1], "expected": 1}]}, "need an `entry_point`"),
        ({"test_cases": [{"input": "", "output": ""}], "entry_point": "f"}, "needs tests with"),
        (
            {"test_cases": [{"arguments": [], "expected": 1}], "entry_point": "f()"},
            "must be the name of a function",
        ),
    ]
    for row, problem in cases:
        with pytest.raises(ValidationError, match=problem):
            CodeTask.model_validate(row)
