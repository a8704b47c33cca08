"""Make rows: `python -m resources_servers.code_gen.generate --count N --seed S --output FILE`."""

from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

from resources_servers.code_gen.problems import MAKERS, Problem
from rollgym.records import derive_seed
from rollgym.servers.generator import run_generator

INSTRUCTIONS = (
    "Write a Python program that solves the problem. Use the standard library only. Give the whole "
    "program in one block that begins with ```python and ends with ```."
)


def generate_rows(count: int, seed: int) -> Iterator[dict[str, Any]]:
    """Each row depends on the seed and its own number alone."""
    for index in range(count):
        random = Random(derive_seed(seed, "code_gen", index))  # noqa: S311 - reproducible on purpose
        problem = MAKERS[index % len(MAKERS)](random)
        row: dict[str, Any] = {
            "responses_create_params": {
                "input": [
                    {"role": "developer", "content": INSTRUCTIONS},
                    {"role": "user", "content": f"{problem.statement}\n\n{_example(problem)}"},
                ]
            },
            "topic": problem.topic,
            "test_cases": problem.test_cases,
        }
        yield row | ({"entry_point": problem.entry_point} if problem.entry_point else {})


def _example(problem: Problem) -> str:
    """A test of medium length, as one would show it."""
    by_length = sorted(problem.test_cases, key=lambda test: len(repr(test)))
    test = by_length[len(by_length) // 2]
    if problem.entry_point:
        arguments = ", ".join(map(repr, test["arguments"]))
        return f"Example: `{problem.entry_point}({arguments})` returns `{test['expected']!r}`."
    return f"Example input:\n\n{test['input']}\nIts output:\n\n{test['output']}"


def main(arguments: Sequence[str] | None = None) -> None:
    run_generator("Small programming problems with tests.", generate_rows, arguments)


if __name__ == "__main__":
    main()
