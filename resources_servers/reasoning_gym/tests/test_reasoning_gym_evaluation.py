"""What is evaluated of an answer, and what is refused."""

from collections.abc import Iterable
from typing import Any

import pytest

from resources_servers.reasoning_gym.evaluation import RefusedCodeError, evaluate, refuse


def test_literals_and_operators_are_evaluated_as_python_does() -> None:
    cases: Iterable[tuple[str, object]] = [
        (" [[0, 1], [1, 0]] ", [[0, 1], [1, 0]]),
        ("['a', 'b']", ["a", "b"]),
        ("(1, None, True)", (1, None, True)),
        ("((0x1f + 0x2) << 3) ^ ~0b1", ((0x1F + 0x2) << 3) ^ ~0b1),
        ("-2 ** 3 / 4", -2.0),
    ]
    for source, value in cases:
        assert evaluate(source) == value


def test_names_come_from_the_caller() -> None:
    functions: dict[str, Any] = {"sqrt": lambda number: number**0.5, "pi": 3}
    assert evaluate("sqrt(x) + pi", functions, {"x": 4}) == 5.0


def test_anything_else_is_refused_though_the_caller_knows_the_names() -> None:
    cases: Iterable[str] = [
        "__import__('os').system('true')",
        "open('file')",
        "().__class__.__base__.__subclasses__()",
        "x.real",
        "x[0]",
        "lambda: 1",
        "[y for y in x]",
        "f'{x}'",
        "(y := 1)",
        "x if x else x",
        "{**x}",
        "sqrt(*x)",
        "sqrt(4, key=1)",
        "sqrt(4)(4)",
        "x()",
        "preview(x)",
        "lambdify",
        "unknown",
        "cos(1)",
        "await x",
    ]
    for source in cases:
        functions: dict[str, Any] = {
            name: lambda *_: 1 for name in ("sqrt", "open", "preview", "lambdify", "__import__")
        }
        with pytest.raises(RefusedCodeError):
            evaluate(source, functions, {"x": 4})


def test_code_that_was_compiled_already_is_refused() -> None:
    with pytest.raises(RefusedCodeError, match="only text can be evaluated"):
        evaluate(compile("1", "", "eval"))


def test_a_syntax_error_stays_one() -> None:
    with pytest.raises(SyntaxError):
        evaluate("1 +")


def test_statements_are_refused() -> None:
    with pytest.raises(RefusedCodeError):
        refuse("import os", {})
